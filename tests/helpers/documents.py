"""The pages of the documentation, and their commands as a reader runs them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
COMMAND = Path(sys.executable).parent / "fedsgt"


def blocks(language: str, pages: Sequence[Path]) -> list[tuple[str, str]]:
    """Every fenced block of this language, with the page it is from."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(page.name, block) for page in pages for block in fence.findall(page.read_text(encoding="utf-8"))]


def commands(pages: Sequence[Path]) -> list[tuple[str, str]]:
    return [(page, line) for page, block in blocks("sh", pages) for line in block.splitlines()]


def run_command(page: str, line: str, folder: Path) -> None:
    """In one folder for each page: later commands use what earlier ones made."""
    name, *arguments = shlex.split(line)
    assert name == "fedsgt"
    place = folder / page
    place.mkdir(exist_ok=True)
    done = subprocess.run([COMMAND, *arguments], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
