"""Wrong inputs as transcripts: a command line, the files that it needs, and what the person is told.

$ train bad.toml                    the command, as a shell takes it
| bad.toml = "plan = ["             a file to make before; None makes a folder, "-> x" a link to x
< "text"                            standard input
> text                              a line of standard output
fedsgt: bad.toml: not TOML: [...]   a line of standard error; [...] stands for anything
exit 3                              the exit code, if it is not 2
mode 000 bad.toml                   permissions of a file; not tried by root, whom none holds off
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from command import Done, fedsgt

FOLDER = Path(__file__).parent.parent / "fixtures" / "wrong_inputs"
ANYTHING = "[...]"
HERE = "{here}"


@dataclass
class Wrong:
    """One wrong input, and all that is expected of it."""

    where: str
    """File and line of the transcript."""
    words: list[str]
    """Command line, without `fedsgt`."""
    files: dict[str, str | bytes | None] = field(default_factory=dict)
    given: str = ""
    out: str = ""
    err: str = ""
    code: int = 2
    modes: dict[str, int] = field(default_factory=dict)
    """Permissions of files and folders."""

    def fits(self, done: Done, here: Path) -> bool:
        """Whether the command said exactly what is expected."""
        texts = (done.stdout, self.out), (done.stderr, self.err)
        return done.returncode == self.code and all(_is_like(*pair, here) for pair in texts)


def _is_like(told: str, expected: str, here: Path) -> bool:
    pattern = re.escape(expected.replace(HERE, str(here))).replace(re.escape(ANYTHING), r"[^\n]*")
    return re.fullmatch(pattern, told) is not None


def read_transcripts() -> list[Wrong]:
    """Return all wrong inputs."""
    return [wrong for path in sorted(FOLDER.glob("*.txt")) for wrong in _read(path)]


def _read(path: Path) -> Iterator[Wrong]:
    found: Wrong | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        mark, _, rest = line.partition(" ")
        if mark == "$":
            if found is not None:
                yield found
            found = Wrong(f"{path.stem}:{number}", [_text(word) for word in shlex.split(rest)])
        elif not line or mark == "#":
            continue
        else:
            assert found is not None, f"{path}:{number}"
            _add(found, line, mark, rest)
    if found is not None:
        yield found


def _add(found: Wrong, line: str, mark: str, rest: str) -> None:
    """Add one line below a command to what is known of it."""
    if mark == "|":
        name, _, value = rest.partition(" = ")
        found.files[name] = _value(value)
    elif mark == "<":
        found.given = str(_value(rest))
    elif mark == ">":
        found.out += f"{rest}\n"
    elif mark == "exit":
        found.code = int(rest)
    elif mark == "mode":
        mode, _, name = rest.partition(" ")
        found.modes[name] = int(mode, 8)
    else:
        found.err += f"{line}\n"


def _value(text: str) -> str | bytes | None:
    """Return a Python value, or a text so many times: "[" * 100."""
    value, _, times = text.rpartition(" * ") if re.search(r" \* \d+$", text) else (text, "", "1")
    read: str | bytes | None = ast.literal_eval(value)
    return None if read is None else read * int(times)


def _text(word: str) -> str:
    r"""Return a word of a command line with escapes such as \x1b, as a shell writes them in $'...'."""
    return ast.literal_eval(f'"{word[1:]}"') if word.startswith("$") else word


class Place:
    """A folder to be wrong in, which must be the same after each command."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pristine = folder, folder.with_name(f"{folder.name}.pristine")
        shutil.copytree(folder, self.pristine, symlinks=True)
        self.known = hashes(folder)

    def run(self, wrong: Wrong) -> tuple[Done, list[str]]:
        """Carry out the command; return what it said, and the names of files that it changed."""
        for name, content in wrong.files.items():
            make(self.folder / name, content)
        before = hashes(self.folder) if wrong.files else self.known
        permitted = {name: (self.folder / name).stat().st_mode for name in wrong.modes}
        for name, mode in wrong.modes.items():
            (self.folder / name).chmod(mode)
        try:
            done = fedsgt(*wrong.words, cwd=self.folder, given=wrong.given)
        finally:
            for name, mode in permitted.items():
                (self.folder / name).chmod(mode)
            after = hashes(self.folder)
            if after != self.known:
                shutil.rmtree(self.folder)
                shutil.copytree(self.pristine, self.folder, symlinks=True)
        return done, sorted(name for name in before | after if before.get(name) != after.get(name))


def permissions_count(folder: Path) -> bool:
    """Whether permissions hold this user off, as they do not for root."""
    probe = folder / "probe"
    probe.touch(mode=0o000)
    try:
        return not os.access(probe, os.R_OK)
    finally:
        probe.unlink()


def make(path: Path, content: str | bytes | None) -> None:
    """Make a file, a folder or a link; what is there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content.startswith("-> "):
        path.symlink_to(content.removeprefix("-> "))
    else:
        path.write_text(content, encoding="utf-8", newline="")


def hashes(folder: Path) -> dict[str, str]:
    """Return a hash of every file, link and folder; what SQLite keeps beside its database does not count."""
    found = {}
    for top, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(top, name)
            if os.path.islink(path):
                found[path] = f"-> {os.readlink(path)}"
            elif os.path.isdir(path):
                found[path] = "folder"
            elif not name.endswith((".sqlite-wal", ".sqlite-shm")):
                found[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return found
