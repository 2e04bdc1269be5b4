"""Finding and destroying every byte of a run that depends on deleted data; to be done again is harmless."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedsgt.build.liveness import Live
from fedsgt.build.locks import sync_folder
from fedsgt.build.run import RunFolder
from fedsgt.store import Folder
from fedsgt.unlearning.notes import FIGURES, METRICS, TRACKED, exports_of, metrics_lines


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
    return [
        *_of_modules(folder, keys),
        *_files(folder, "activations", (folder.cache / mark for mark in hit_slices(live))),
        *_files(
            folder, "export", (path for path, made_of in exports_of(folder) if not made_of.isdisjoint(keys))
        ),
        *_files(folder, "figures", (folder.path / name for name in FIGURES)),
        *_metrics(folder, keys),
        *_files(folder, "metrics", (folder.path / name for name in TRACKED) if keys else ()),
    ]


def destroy(folder: RunFolder, live: Live, progress: Callable[[float], None] = lambda share: None) -> None:
    """Destroy what `doomed` finds; called by who holds the store, after the request is in the ledger."""
    dead = [entry.key for entry in live.dead_modules()]
    there = {name.split("/")[1].removesuffix(".safetensors") for name in _object_names(folder)}
    for done, key in enumerate(dead):
        if key in there:
            folder.modules.discard(key)
            folder.modules.discard_round(key)
        progress((done + 1) / len(dead))
    for mark in hit_slices(live):
        bury_activations(folder.cache, mark)
    keys = set(dead)
    for path, made_of in exports_of(folder):
        if not made_of.isdisjoint(keys):
            _remove(path)
    for name in FIGURES + (TRACKED if keys else ()):
        _remove(folder.path / name)
    _rewrite_metrics(folder, keys)
    sync_folder(folder.path)


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
    if not place.is_dir() and not aside.exists():
        if cache.is_dir():
            place.touch()
        return
    if place.is_dir():
        place.rename(aside)
    place.touch()
    shutil.rmtree(aside)
    sync_folder(cache)


def _object_names(folder: RunFolder) -> list[str]:
    objects = folder.modules.objects
    return [*objects.names("modules/"), *objects.names("rounds/")]


def _of_modules(folder: RunFolder, keys: set[str]) -> Iterator[Artefact]:
    kinds = {"module.safetensors": "module", "manifest.json": "manifest"}
    for name in _object_names(folder):
        key = name.split("/")[1].removesuffix(".safetensors")
        if key not in keys:
            continue
        kind = "checkpoint" if name.startswith("rounds/") else kinds.get(name.split("/")[-1], "predictions")
        yield Artefact(name, kind, hashlib.sha256(folder.modules.objects.read(name)).hexdigest(), key)


def _files(folder: RunFolder, kind: str, places: Iterable[Path]) -> Iterator[Artefact]:
    for place in places:
        found = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
        for path in found:
            if path.stat().st_size or kind != "activations":  # not what stands for a buried folder
                name = path.relative_to(folder.path).as_posix()
                yield Artefact(name, kind, hashlib.sha256(path.read_bytes()).hexdigest())


def _metrics(folder: RunFolder, keys: set[str]) -> Iterator[Artefact]:
    lines = [line for line, key in metrics_lines(folder) if key in keys]
    if lines:
        yield Artefact(METRICS, "metrics", hashlib.sha256(b"".join(lines)).hexdigest())


def _rewrite_metrics(folder: RunFolder, keys: set[str]) -> None:
    lines = metrics_lines(folder)
    kept = [line for line, key in lines if key not in keys]
    if len(kept) < len(lines):
        Folder(folder.path).write(METRICS, b"".join(kept))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
