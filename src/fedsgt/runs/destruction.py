"""Destruction of every byte of a run that depends on anything dead, by a walk through the registry."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedsgt.errors import InputError
from fedsgt.files.durable import sync_folder
from fedsgt.runs.artefacts import (
    REGISTRY,
    STATISTICS,
    ArtefactKind,
    bury_activations,
    claimed_files,
    kind_of,
    work_made_of,
)
from fedsgt.runs.dependencies import Dead, PartOfModule, StoredFile, local_links
from fedsgt.runs.work import destroy_work, work_folders
from fedsgt.store import Folder

if TYPE_CHECKING:  # only a type: the module of `RunFolder` imports this one
    from fedsgt.runs.folder import RunFolder


@dataclass(frozen=True)
class Artefact:
    """File that depends on data, as the ledger and certificates list it."""

    name: str
    kind: str
    sha256: str
    module: str | None = None


def doomed(folder: RunFolder, dead: Dead) -> list[Artefact]:
    """List what must be destroyed because it depends on anything dead."""
    found = []
    for kind, file in claimed_files(folder):
        made_of = kind.made_of(file)
        if kind.label is not None and dead.reaches(made_of):
            key = made_of.key if isinstance(made_of, PartOfModule) else None
            data = _gone_bytes(kind, file, dead)
            # The target of a link is not destroyed, so no certificate may say that it was.
            label = kind.label if file.plain else "link"
            found.append(Artefact(file.name, label, hashlib.sha256(data).hexdigest(), key))
    return found


def _gone_bytes(kind: ArtefactKind, file: StoredFile, dead: Dead) -> bytes:
    if not file.plain:
        return os.fsencode(os.readlink(file.path)) if file.path.is_symlink() else b""
    try:
        return kind.split(file.read(), dead)[1] if kind.split is not None else file.read()
    except InputError:  # it cannot be divided, which its destruction will tell
        return file.read()


def destroy(folder: RunFolder, dead: Dead, progress: Callable[[float], None] = lambda share: None) -> None:
    """Destroy all files that depend on anything dead; doing it again changes nothing.

    The caller must hold the store's lock, and what is dead must be in the ledger already. A file that cannot
    be destroyed does not save the others: the first such error is raised at the end.
    """
    failed: list[Exception] = []
    found = [(kind, file) for kind, file in claimed_files(folder) if dead.reaches(kind.made_of(file))]
    found.sort(key=lambda pair: REGISTRY.index(pair[0]))
    for done, (kind, file) in enumerate(found, start=1):
        try:
            left = kind.split(file.read(), dead)[0] if kind.split is not None and file.plain else None
            if left is None:
                kind.destroy(folder, file, dead)
            else:
                Folder(folder.path).write(file.name, left)
        except InputError as error:
            told = str(error)
            failed.append(error if file.name in told else InputError(f"{folder.path / file.name}: {told}"))
        except OSError as error:
            failed.append(error)
        progress(done / len(found))
    # Slices without activations are buried too: a worker that holds their records may be about to write some.
    for fingerprint in sorted(dead.hit_slices):
        bury_activations(folder.cache, fingerprint)
    # Work folders without a file too: their process may be about to write the first.
    for path in work_folders(folder.path):
        if dead.reaches(work_made_of(path)):
            destroy_work(path)
    _sync_all(folder)
    if failed:
        raise failed[0]


def _sync_all(folder: RunFolder) -> None:
    """Make all removals durable, also those of an earlier attempt that was killed before it could."""
    objects = folder.modules.objects
    for root in {folder.path.absolute(), *([objects.root] if isinstance(objects, Folder) else [])}:
        places = [root, *root.iterdir()] if root.is_dir() else []
        statistics = root / STATISTICS
        places += statistics.iterdir() if statistics.is_dir() and not statistics.is_symlink() else []
        for place in places:
            if place.is_dir() and not place.is_symlink():
                sync_folder(place)


def check_links(folder: RunFolder) -> None:
    """Refuse a run in which a link stands where files that depend on data belong.

    Its files are elsewhere. A deletion would remove the link, and with it modules that are still live, and
    leave the bytes.
    """
    for link in local_links(folder):
        kind = kind_of(link)
        if kind is not None and kind.label is not None:
            raise InputError(
                f"{link.path}: a symbolic link, and a deletion destroys nothing outside the run's folder; "
                "put the files themselves in its place, or remove it; nothing was changed"
            )


def sweep(folder: RunFolder) -> None:
    """Remove files that stopped writers left, and files that the described run does not need."""
    for kind, file in claimed_files(folder):
        if file.plain:
            kind.sweep(folder, file)
