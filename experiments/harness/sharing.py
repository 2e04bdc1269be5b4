"""Sharing of the frozen layers' outputs between runs with equal slices."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fedsgt.build.client_access import LocalClients
from fedsgt.build.prepare import Prepared
from fedsgt.engine.events import Listener
from fedsgt.engine.task import Engine
from fedsgt.runs.folder import RunFolder


@dataclass(frozen=True)
class Shared(LocalClients):
    """Clients whose run has its own cache, in which files are links to those of earlier runs.

    A deletion takes away the run's own link: what is left here is of no run, and of public records.
    """

    place: Path

    @contextmanager
    def engine(self, folder: RunFolder, prepared: Prepared, tell: Listener) -> Iterator[Engine]:
        slices = [mark for client in prepared.clients for mark in client.fingerprints()]
        link(self.place, folder.cache, slices)
        with super().engine(folder, prepared, tell) as engine:
            yield engine
        link(folder.cache, self.place, slices)


def link(source: Path, target: Path, folders: Iterable[str]) -> None:
    """Give `target` the files that `source` has in these folders and it has not.

    Whatever forbids it, they are computed instead. Where something was destroyed a file stands for the
    folder, and nothing comes into it.
    """
    for name in folders:
        for file in (source / name).glob("*.activations"):
            with suppress(OSError):
                (target / name).mkdir(parents=True, exist_ok=True)
                os.link(file, target / name / file.name)
