"""The pages of the documentation, and their commands as a reader runs them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from command import Done, fedsgt

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
COMMAND = Path(sys.executable).parent / "fedsgt"
APART = {"--engine", "--federated"}
"""Flower and Ray leave things behind, so a command with one of these has a process of its own."""
SMALL = [
    f"-s{setting}"
    for setting in ("data.limit=200", "data.test_limit=60", "training.epochs=1", "engine.workers=0")
]
"""The demo is as large in `make demo`, and in the slow tests, as a reader sees it."""


def blocks(language: str, pages: Sequence[Path]) -> list[tuple[str, str]]:
    """Return every fenced block of this language, with its page."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(page.name, block) for page in pages for block in fence.findall(page.read_text(encoding="utf-8"))]


def commands(pages: Sequence[Path]) -> list[tuple[str, str]]:
    return [(page, line) for page, block in blocks("sh", pages) for line in block.splitlines()]


def run_command(page: str, line: str, folder: Path, apart: bool = False) -> None:
    """Run a command in the folder of its page, where later commands use the files of earlier ones."""
    name, *arguments = shlex.split(line)
    assert name == "fedsgt"
    place = folder / page
    place.mkdir(exist_ok=True)
    small = SMALL if arguments == ["demo"] else []
    if apart or APART & {*arguments}:
        done = installed(arguments, place)
    else:
        done = fedsgt(*arguments, *small, cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if arguments[0] == "init":
        _without_workers(place / arguments[1])


def installed(arguments: Sequence[str], place: Path) -> Done:
    """Run the command in a process of its own."""
    done = subprocess.run([COMMAND, *arguments], cwd=place, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def _without_workers(file: Path) -> None:
    """Train without workers: each would start torch anew, which takes longer than the training itself."""
    text = file.read_text(encoding="utf-8")
    assert "\nworkers = 2 " in text
    file.write_text(text.replace("\nworkers = 2 ", "\nworkers = 0 "), encoding="utf-8")
