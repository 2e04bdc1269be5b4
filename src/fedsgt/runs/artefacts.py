"""What a run's folder holds that was made of modules, beside them, and the removal of all of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from fedsgt.files.durable import sync_folder
from fedsgt.store import Folder

if TYPE_CHECKING:  # a run's folder removes them itself when it is described anew
    from fedsgt.runs.folder import RunFolder

METRICS = "metrics.jsonl"
COMPARED = "compared.json"
# Adapters for other software, each with a note of its modules, so that a deletion finds and destroys it.
EXPORTS, EXPORT_NOTE = "export", "fedsgt.json"
# Curves of modules, in formats of which no part can be taken out.
TRACKED = ("tensorboard", "mlflow.db")


def object_names(folder: RunFolder) -> list[tuple[str, str]]:
    """Every object of the store that belongs to a module: the module's key, and the name."""
    objects = folder.modules.objects
    names = (*objects.names("modules/"), *objects.names("rounds/"))
    return [(name.split("/")[1].removesuffix(".safetensors"), name) for name in names]


def exports_of(folder: RunFolder) -> list[tuple[Path, frozenset[str] | None]]:
    """Each export in the run's folder with the keys of its modules; none if it does not say."""
    place = folder.path / EXPORTS
    return [(path, _made_of(path)) for path in sorted(place.iterdir())] if place.is_dir() else []


def metrics_lines(folder: RunFolder) -> list[tuple[bytes, str | None]]:
    """Each line of the run's metrics with the key of its module, if it can be read."""
    try:
        lines = (folder.path / METRICS).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [(line, _module(line)) for line in lines]


def depends(made_of: frozenset[str] | None, keys: Collection[str]) -> bool:
    """What does not say what it was made of depends on everything."""
    return bool(keys) and (made_of is None or not made_of.isdisjoint(keys))


def purge(
    folder: RunFolder, keys: Collection[str], progress: Callable[[float], None] = lambda share: None
) -> None:
    """Destroy these modules, their checkpoints, and all that was made of them; done twice it is done once."""
    there = {key for key, _ in object_names(folder)} & set(keys)
    for done, key in enumerate(sorted(there)):
        folder.modules.discard(key)
        folder.modules.discard_checkpoint(key)
        progress((done + 1) / len(there))
    for path, made_of in exports_of(folder):
        if depends(made_of, keys):
            remove(path)
    for name in TRACKED if keys else ():
        remove(folder.path / name)
    _rewrite_metrics(folder, keys)


def remove(path: Path) -> None:
    """A file or a folder; one that is not there is fine."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if path.parent.is_dir():
        sync_folder(path.parent)


def _rewrite_metrics(folder: RunFolder, keys: Collection[str]) -> None:
    """Without the lines of these modules, and without those that nobody can read."""
    lines = metrics_lines(folder)
    kept = [line for line, key in lines if key is not None and key not in keys]
    if len(kept) < len(lines):
        Folder(folder.path).write(METRICS, b"".join(kept))


def _made_of(export: Path) -> frozenset[str] | None:
    try:
        return frozenset(json.loads((export / EXPORT_NOTE).read_text(encoding="utf-8"))["modules"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _module(line: bytes) -> str | None:
    try:
        found = json.loads(line)["module"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None
