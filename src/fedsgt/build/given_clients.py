"""Access to clients whose records are given in memory: dealt for a new run, and then kept in its folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fedsgt.build.client_access import LocalClients
from fedsgt.config import Config
from fedsgt.data import Client
from fedsgt.data.sources.memory import GivenRecords
from fedsgt.errors import InputError
from fedsgt.runs.description import Description
from fedsgt.runs.records import ClientData, all_given, deal_given
from fedsgt.runs.register import Registers
from fedsgt.runs.state import DeletedData


class GivenClients(LocalClients):
    """Clients of records in memory; a run that is continued must have been made of the same records."""

    def __init__(self, records: GivenRecords) -> None:
        self.records = records

    def load_clients(
        self,
        run: Config,
        known: Description | None = None,
        erased: Mapping[int, DeletedData] | None = None,
        registers: Registers | None = None,
        asked: Collection[int] | None = None,
    ) -> ClientData:
        if known is None:
            return deal_given(run, self.records)
        kept = super().load_clients(run, known, erased, registers)
        # The records in memory are looked at, and not used: what counts is what the run registered and has
        # not deleted since. They are not dealt again, as some may rightly be missing by now.
        contents = {record.id: (record.digest, record.label) for record in all_given(run, self.records)}
        for number, client in enumerate(kept.local):
            if known.clients[number].source is None:
                _check_same(client, contents)
        return kept


def _check_same(kept: Client, given: Mapping[str, tuple[bytes, int | None]]) -> None:
    """Check that a client's records that are left in the run are among those that were given again."""
    if any(given.get(record.id) != (record.digest, record.label) for record in kept.records):
        raise InputError(
            f"data: the records of client {kept.name} are not those that this run was made of; give another "
            "output folder, or leave data out to continue this run"
        )
