"""Verification: the served modules are trained again from retained data, elsewhere, and their bytes compared.

Definition 8: every parameter served is a function of retained data only. What is trained again gets a
fresh process and a fresh folder in which deleted records are not there.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fedsgt.certificates.certify import data_dependent_choices
from fedsgt.errors import InputError
from fedsgt.ledger.kinds import MODULES_CHANGED, Kind
from fedsgt.proof.rebuild_folder import write_retained
from fedsgt.runs.description import ModuleEntry
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.stack import profile
from fedsgt.store import CorruptModule, Folder, Manifest, MissingModule, Modules, compare
from fedsgt.unlearning.unlearn import unfinished

# Not from the working directory: what lies there must not stand in for a library.
COMMAND = (sys.executable, "-P", "-m", "fedsgt.proof.rebuild")
ERRORS = "errors.txt"
Verdict: TypeAlias = Literal["same", "different", "damaged", "not destroyed", "not comparable"]
Progress: TypeAlias = Callable[[float], None]
Refused: TypeAlias = dict[tuple[int, ...], tuple[Verdict, str]]
Rebuild: TypeAlias = Callable[[Path, int, Callable[[], None], Progress], Refused]
"""Trains the modules of a folder again, into it, in an order drawn by a seed; calls a check often."""


@dataclass(frozen=True)
class Checked:
    """A module, what was found of it, and in one line why."""

    key: str
    groups: tuple[int, ...]
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Verification:
    """What was found at one position of the ledger."""

    modules: tuple[Checked, ...]
    """Those that were trained again, and all in which something is wrong beforehand."""
    served: int
    """How many modules there are to verify in all."""
    sample: int | None
    seed: int
    """Of the sample, and of the order in which modules were trained."""
    position: int
    unfinished: tuple[int, ...]
    """Positions of requests whose bytes may still be there, or whose certificate is missing."""
    data_dependent_choices: tuple[str, ...]
    """What was decided by looking at data content: that may carry traces of what was deleted later, and
    equal bytes do not show that it does not (definition 8)."""
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(module.verdict for module in self.modules))

    @property
    def failed(self) -> bool:
        """Whether something is wrong; not to be comparable proves nothing either way."""
        return bool(self.counts.keys() - {"same", "not comparable"})

    @property
    def passed(self) -> bool:
        """Whether all that was looked at is the same, bit for bit."""
        return self.counts.keys() <= {"same"}

    def to_json(self) -> dict[str, Any]:
        return {"passed": self.passed, "counts": self.counts} | asdict(self)


def verify(
    folder: RunFolder,
    sample: int | None = None,
    seed: int | None = None,
    progress: Progress = lambda share: None,
    *,
    command: Sequence[str] = COMMAND,
    rebuild: Rebuild | None = None,
    keep: Path | None = None,
) -> Verification:
    """Train the served modules again, or so many of them drawn by the seed, each with its parents; compare.

    `command` is what is started, with a folder and a seed, unless `rebuild` says how else that is done; the
    folder is `keep`, if given, and stays then.
    """
    rebuild = rebuild or partial(_run_child, command)
    if sample is not None and sample < 1:
        raise InputError(f"sample: {sample} is not allowed; it is the number of modules to verify, 1 or more")
    started = time.monotonic()
    seed = secrets.randbelow(2**32) if seed is None else seed
    live, present = folder.live(), folder.present()
    served = [entry for entry in live.modules() if entry.key in present]
    chosen = served if sample is None else random.Random(seed).sample(served, min(sample, len(served)))
    found = _undestroyed(live, present) | _missing(folder, live, present)
    claims = _read(folder, live, _closed(live, chosen), found)
    wanted = _closed(live, [entry for entry in chosen if entry.key in claims])
    if wanted:
        with _own_folder(keep) as path:
            write_retained(path, folder, live, wanted, _took_part(claims))
            refused = rebuild(path, seed, _fence(folder, live), progress)
            found |= _compared(wanted, claims, refused, Modules(Folder(path)))
    return Verification(
        modules=tuple(found.values()),
        served=len(served),
        sample=sample,
        seed=seed,
        position=live.position,
        unfinished=tuple(entry.position for entry in unfinished(folder)),
        data_dependent_choices=tuple(data_dependent_choices(live)),
        seconds=time.monotonic() - started,
    )


Found: TypeAlias = dict[str, Checked]


def _took_part(claims: Mapping[str, Manifest]) -> dict[str, list[list[str]]]:
    """Who did in each round, as the manifests say: what was learnt from fewer is not wrong."""
    return {key: [sorted(names) for names in claim.participants] for key, claim in claims.items()}


def _checked(entry: ModuleEntry, verdict: Verdict, reason: str) -> Found:
    return {entry.key: Checked(entry.key, tuple(entry.groups), verdict, reason)}


def _undestroyed(live: Live, present: Collection[str]) -> Found:
    found: Found = {}
    for entry in live.dead_modules():
        if entry.key in present:
            found |= _checked(entry, "not destroyed", "a deletion has hit it, and its bytes are still there")
    return found


def _missing(folder: RunFolder, live: Live, present: Collection[str]) -> Found:
    """Live modules that were there: what others were trained on, and all once training was complete."""
    changes = [entry for entry in folder.ledger.entries() if entry.kind in MODULES_CHANGED]
    last = changes[-1] if changes else None
    complete = last and last.kind == Kind.BUILT and last.body["modules"] >= len(live.description.modules)
    below = {entry.parent for entry in live.modules() if entry.key in present}
    found: Found = {}
    for entry in live.modules():
        if entry.key not in present and (complete or entry.key in below):
            found |= _checked(entry, "damaged", "it was trained, and is not in the store any more")
    return found


def _closed(live: Live, entries: Sequence[ModuleEntry]) -> list[ModuleEntry]:
    """These modules with their parents, in the plan's order."""
    keys = {key for entry in entries for key in live.description.chain(tuple(entry.groups))}
    return [entry for entry in live.description.modules if entry.key in keys]


def _read(folder: RunFolder, live: Live, entries: Sequence[ModuleEntry], found: Found) -> dict[str, Manifest]:
    """What the store says of its modules, once their tensors are read and checked; damage goes to `found`."""
    known, claims = live.description, {}
    for entry in entries:
        try:
            folder.modules.get(entry.key)
            manifest = folder.modules.manifest(entry.key)
        except CorruptModule as error:
            found |= _checked(entry, "damaged", str(error))
        except MissingModule:
            continue  # a parent that was never there, or is already found to be missing
        else:
            said = (manifest.prefix, manifest.config_hash, manifest.backbone, manifest.profile)
            if said != (entry.prefix, known.config_hash, known.backbone, known.profile):
                reason = "its manifest says that it was made from other data or in another way than the run's"
                found |= _checked(entry, "damaged", reason)
            else:
                claims[entry.key] = manifest
    return claims


def _compared(
    entries: Sequence[ModuleEntry],
    claims: Mapping[str, Manifest],
    refused: Refused,
    rebuilt: Modules,
) -> Found:
    found: Found = {}
    for entry in entries:
        if entry.key not in claims:
            continue  # trained again only because others stand on it
        if tuple(entry.groups) in refused:
            found |= _checked(entry, *refused[tuple(entry.groups)])
        else:
            rebuilt.get(entry.key)
            comparison = compare(claims[entry.key], rebuilt.manifest(entry.key))
            found |= _checked(entry, comparison.verdict, comparison.reason)
    return found


def _fence(folder: RunFolder, live: Live) -> Callable[[], None]:
    """Called often: a record that is deleted meanwhile must not be used on, nor lie in our folder."""

    def check() -> None:
        if folder.live().last_request != live.last_request:
            raise InputError(
                f"{folder.path}: a deletion came in meanwhile, so what was being verified is out of date; "
                "verify again"
            )

    return check


@contextmanager
def _own_folder(keep: Path | None) -> Iterator[Path]:
    """A folder that only its owner can look into, gone in the end whatever happens."""
    if keep is not None:
        keep.mkdir(mode=0o700)
        yield keep
        return
    path = Path(tempfile.mkdtemp(prefix="fedsgt-verify-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _run_child(
    command: Sequence[str], path: Path, seed: int, check: Callable[[], None], progress: Progress
) -> Refused:
    """Start it and hear it out; verdicts by groups for modules that it did not train."""
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    said: list[dict[str, Any]] = []
    with (
        (path / ERRORS).open("wb") as errors,
        subprocess.Popen(
            (*command, str(path), str(seed)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=surroundings | profile.environment(),
            start_new_session=True,  # Ctrl-C is for this process to deal with
        ) as child,
    ):
        try:
            for line in _lines(child):
                check()
                said.append(line)
                progress(line.get("share", 0.0))
            check()
        except BaseException:
            _end(child)
            raise
    if child.returncode:
        raise InputError(_failure(said, child.returncode, path))
    return refused_in(said)


def refused_in(said: Sequence[Mapping[str, Any]]) -> Refused:
    """Which modules a rebuild did not train, out of what it told."""
    return {tuple(line["groups"]): (line["verdict"], line["reason"]) for line in said if "groups" in line}


def _lines(child: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """What it tells; libraries may print too."""
    assert child.stdout is not None
    for line in child.stdout:
        with suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict):
                yield told


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill it with its workers; its output ends once the last of them is gone, and writes no more files."""
    assert child.stdout is not None
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.stdout.read()


def _failure(said: Sequence[dict[str, Any]], code: int, path: Path) -> str:
    told = next((line["error"] for line in said if "error" in line), None)
    if told is not None:
        return str(told)
    lines = (path / ERRORS).read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "-9 is often too little memory")
    return f"the process that trains modules again ended with exit code {code} ({last})"
