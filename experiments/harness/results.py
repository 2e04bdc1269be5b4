"""Results on disk: a file for each cell, with an entry for each seed that names its versions and machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedsgt.stack import profile
from fedsgt.store import Folder

CODE = ("../../src", ":(glob)../**/*.py", ":(glob)../**/*.toml")
PACKAGES = ("fedsgt", "torch", "transformers", "peft", "numpy", "scikit-learn")


@dataclass(frozen=True)
class Cell:
    """One line of a table or one curve of a figure; measured once for every seed."""

    name: str
    """Name of the cell's file."""
    about: Mapping[str, Any]
    """Settings that tell the cell from others; another value here is another result."""
    lane: str = ""
    """Cells of one lane and seed share a store, and are not measured side by side."""
    seeds: int | None = None
    """Number of seeds, if fewer than the experiment's can be paid."""


@dataclass
class Results:
    """The cells of one experiment that were measured, by name."""

    folder: Path
    cells: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Results:
        found = cls(folder)
        for file in sorted(folder.glob("*.json")):
            content = json.loads(file.read_text(encoding="utf-8"))
            found.cells[file.stem] = {int(seed): entry for seed, entry in content["seeds"].items()}
        return found

    def has(self, cell: Cell, seed: int) -> bool:
        """Whether this seed is there, and was measured with these settings."""
        file = self.folder / f"{cell.name}.json"
        if not file.is_file():
            return False
        content = json.loads(file.read_text(encoding="utf-8"))
        return content["about"] == _plain(cell.about) and str(seed) in content["seeds"]

    def only(self, cells: Iterable[Cell], seeds: int) -> Results:
        """Return the results of these cells that have these settings, for the first so many seeds."""
        kept = {
            cell.name: {seed: entry for seed, entry in self.cells[cell.name].items() if seed < seeds}
            for cell in cells
            if cell.name in self.cells and any(self.has(cell, seed) for seed in range(seeds))
        }
        return Results(self.folder, kept)

    def put(self, cell: Cell, seed: int, measured: Mapping[str, Any], seconds: float) -> None:
        """Keep a seed's result; drop the cell's results of other settings."""
        file, about = self.folder / f"{cell.name}.json", _plain(cell.about)
        content: dict[str, Any] = {"about": about, "seeds": {}}
        if file.is_file():
            known = json.loads(file.read_text(encoding="utf-8"))
            content = known if known["about"] == about else content
        entry = {"result": measured, "cpu_seconds": round(seconds, 1), "made": provenance()}
        content["seeds"][str(seed)] = entry
        content["seeds"] = dict(sorted(content["seeds"].items(), key=lambda item: int(item[0])))
        self.folder.mkdir(parents=True, exist_ok=True)
        Folder(self.folder).write(file.name, (json.dumps(content, indent=1) + "\n").encode())
        self.cells[cell.name] = {int(seed): entry for seed, entry in content["seeds"].items()}

    def values(self, cell: str, *path: str | int) -> list[Any]:
        """Return one number of a cell for each seed, in order; `path` leads to it."""
        return [_at(entry["result"], path) for _, entry in sorted(self.cells.get(cell, {}).items())]

    def seeds(self, cell: str) -> Iterator[tuple[int, Any]]:
        for seed, entry in sorted(self.cells.get(cell, {}).items()):
            yield seed, entry["result"]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all results together."""
        return sum(float(entry["cpu_seconds"]) for seeds in self.cells.values() for entry in seeds.values())


@cache
def provenance() -> dict[str, Any]:
    """Return the origin of a result: versions, commit and machine."""
    return {
        "versions": {"python": platform.python_version(), "execution profile": profile.ALGORITHM}
        | {name: version(name) for name in PACKAGES},
        "commit": _commit(),
        "machine": f"{_processor()}, {os.cpu_count()} cores, one thread a process",
    }


def _commit() -> str:
    """Return the commit, with a plus if the working tree differs from it."""
    found = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *CODE)
    return f"{found}{'+' if changed else ''}" or "unknown"


def _git(*words: str) -> str:
    here = Path(__file__).parent
    done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def _plain(about: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(about))


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value
