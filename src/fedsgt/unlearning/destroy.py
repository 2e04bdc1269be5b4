"""Finding and destroying every byte of a run that depends on deleted data; to be done again is harmless."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedsgt.runs.artefacts import (
    METRICS,
    TRACKED,
    depends,
    exports_of,
    metrics_lines,
    object_names,
    purge,
    remove,
)
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live

# Drawn from all modules that were live at the time; `evaluate` and `report` make them anew.
FIGURES = ("evaluation.json", "report.html")
KINDS = {"module.safetensors": "module", "manifest.json": "manifest"}


@dataclass(frozen=True)
class Artefact:
    """Something on disk that was made from data."""

    name: str
    kind: str
    sha256: str
    module: str | None = None


def doomed(folder: RunFolder, live: Live) -> list[Artefact]:
    """All that must go: what depends on a group that was hit, and figures drawn from any module."""
    keys = {entry.key for entry in live.dead_modules()}
    exports = (path for path, made_of in exports_of(folder) if depends(made_of, keys))
    return [
        *_of_modules(folder, keys),
        *_files(folder, "activations", (folder.cache / mark for mark in hit_slices(live))),
        *_files(folder, "export", exports),
        *_files(folder, "figures", (folder.path / name for name in FIGURES)),
        *_metrics(folder, keys),
        *_files(folder, "metrics", (folder.path / name for name in TRACKED) if keys else ()),
    ]


def destroy(folder: RunFolder, live: Live, progress: Callable[[float], None] = lambda share: None) -> None:
    """Destroy what `doomed` finds; called by who holds the store, after the request is in the ledger."""
    purge(folder, [entry.key for entry in live.dead_modules()], progress)
    for mark in hit_slices(live):
        bury_activations(folder.cache, mark)
    for name in FIGURES:
        remove(folder.path / name)
    # Also what killed writers left of modules that never came to be.
    folder.modules.objects.sweep("modules/")
    folder.modules.objects.sweep("rounds/")


def hit_slices(live: Live) -> list[str]:
    """Fingerprints, before the deletion, of the slices that lost records since the description was made."""
    description = live.description
    found: dict[str, None] = {}
    for request in live.requests:
        for part in request.body["parts"] if request.position > description.as_of else ():
            marks = description.clients[part["number"]].slices
            found.update({marks[index]: None for index in part["slices"]})
    return list(found)


def bury_activations(cache: Path, mark: str) -> None:
    """An empty file in the folder's place: a worker that still holds the slice cannot write it again."""
    place, aside = cache / mark, cache / f".{mark}"
    cache.mkdir(exist_ok=True)
    while not place.is_file():
        remove(aside)
        if place.is_dir():
            place.rename(aside)
        with suppress(FileExistsError):  # such a worker was faster: once more
            place.touch(exist_ok=False)
    remove(aside)


def _of_modules(folder: RunFolder, keys: set[str]) -> Iterator[Artefact]:
    for key, name in object_names(folder):
        if key in keys:
            kind = (
                "checkpoint" if name.startswith("rounds/") else KINDS.get(name.split("/")[-1], "predictions")
            )
            yield Artefact(name, kind, hashlib.sha256(folder.modules.objects.read(name)).hexdigest(), key)


def _files(folder: RunFolder, kind: str, places: Iterable[Path]) -> Iterator[Artefact]:
    for place in places:
        found = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
        for path in found:
            if path.stat().st_size or kind != "activations":  # not what stands for a buried folder
                name = path.relative_to(folder.path).as_posix()
                yield Artefact(name, kind, hashlib.sha256(path.read_bytes()).hexdigest())


def _metrics(folder: RunFolder, keys: set[str]) -> Iterator[Artefact]:
    lines = [line for line, key in metrics_lines(folder) if key is None or key in keys]
    if lines:
        yield Artefact(METRICS, "metrics", hashlib.sha256(b"".join(lines)).hexdigest())
