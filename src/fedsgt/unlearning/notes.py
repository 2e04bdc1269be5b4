"""What lies in a run's folder beside its store, and which modules it was made of."""

from __future__ import annotations

import json
from pathlib import Path

from fedsgt.build.run import EXPORT_NOTE, EXPORTS, RunFolder

METRICS = "metrics.jsonl"
# Drawn from all modules that were live at the time; `evaluate` and `report` make them anew.
FIGURES = ("evaluation.json", "report.html")
# Curves of modules, in formats of which no part can be taken out.
TRACKED = ("tensorboard", "mlflow.db")


def exports_of(folder: RunFolder) -> list[tuple[Path, frozenset[str]]]:
    """Each export in the run's folder, and the keys of its modules; all of them if it does not say."""
    place = folder.path / EXPORTS
    if not place.is_dir():
        return []
    return [(path, _made_of(folder, path)) for path in sorted(place.iterdir())]


def _made_of(folder: RunFolder, export: Path) -> frozenset[str]:
    try:
        return frozenset(json.loads((export / EXPORT_NOTE).read_text(encoding="utf-8"))["modules"])
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset(entry.key for entry in folder.live().description.modules)


def metrics_lines(folder: RunFolder) -> list[tuple[bytes, str | None]]:
    """Each line of the run's metrics with the key of its module, if it can be read."""
    try:
        lines = (folder.path / METRICS).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [(line, _module(line)) for line in lines]


def _module(line: bytes) -> str | None:
    try:
        found = json.loads(line)["module"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None
