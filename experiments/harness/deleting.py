"""Requests carried out for real: records deleted from a run of its own, which is then trained again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from experiments.harness.bench import Trained
from experiments.harness.requests import Request
from fedsgt.build.train import check_participation, train
from fedsgt.engine.events import ignore
from fedsgt.errors import InputError
from fedsgt.runs.description import ClientEntry
from fedsgt.runs.records import load_clients
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import recover, unlearn

SHARE = 10  # the paper's 100 records are a tenth of a slice


class Deleting:
    """Deletes as the paper's requests do: a tenth of a slice each time, while there is something left."""

    def __init__(self, run: Trained) -> None:
        self.folder = run.folder
        clients = load_clients(run.folder.config).local
        self.names = [client.name for client in clients]
        self.left = [[[record.id for record in part] for part in client.cut()] for client in clients]
        self.portion = [[max(1, len(part) // SHARE) for part in client] for client in self.left]

    def request(self, request: Request) -> bool:
        """Delete what the request names; return whether there was anything left to delete."""
        records = [record for index in request.slices for record in self._taken(request, index)]
        if records:
            unlearn(self.folder, [Deletion(self.names[request.client], tuple(records))])
        return bool(records)

    def requests(self, stream: Iterable[Request]) -> None:
        for request in stream:
            self.request(request)

    def _taken(self, request: Request, index: int) -> list[str]:
        left = self.left[request.client][index]
        count = len(left) if request.whole else self.portion[request.client][index]
        taken, left[:] = left[:count], left[count:]
        return taken

    def retrain(self) -> Trained:
        """Train dead modules again on retained data, and check that no client lost more than it asked for."""
        folder = train(self.folder.config, Path(self.folder.path), ignore, recover)
        check_participation(folder)
        self._check_nothing_lost(folder.description.clients)
        self.folder = folder
        return Trained(folder)

    def _check_nothing_lost(self, entries: Iterable[ClientEntry]) -> None:
        """Check each client's number of records against the ids asked for, not against the run's own word."""
        expected = [[len(part) for part in client] for client in self.left]
        found = [list(entry.records) for entry in entries]
        if found != expected:
            raise InputError(f"records by client and slice: {found}, but {expected} are retained")
