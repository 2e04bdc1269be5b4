"""Records that have left their source and not the run: modules still depend on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import repeat
from pathlib import Path

from fedsgt.data import ROW, Client
from fedsgt.data.sources import read_names
from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import load_run_clients
from fedsgt.runs.records_left import records_left
from fedsgt.runs.register import Registers
from fedsgt.runs.state import DeletedData, Live
from fedsgt.unlearning.erase import sources


def vanished_records(folder: RunFolder, live: Live) -> dict[str, int]:
    """Return, by client, how many records of the run are neither deleted nor in their file any more.

    Files that are not here, or cannot be read, are passed over: an auditor may have none of them.
    """
    config, found = folder.config, Counter[int]()
    if config.data.partition == "remote" or config.data.id_column == ROW:
        return {}
    looked_at: set[int] = set()
    for path, numbers in sources(folder, live.description).items():
        with suppress(InputError):
            found += _still_there(folder, live, path, numbers)
            looked_at |= numbers
    lost = {number: sum(records_left(live, number)) - found[number] for number in sorted(looked_at)}
    return {live.description.clients[number].name: count for number, count in lost.items() if count > 0}


def _still_there(folder: RunFolder, live: Live, path: Path, numbers: set[int]) -> Counter[int]:
    """Count the clients' registered records in this file that are not deleted."""
    data, entries = folder.config.data, live.description.clients
    # Simulated clients have no column of their own: who holds a row is found as for a training.
    if data.partition != "given" and any(entries[number].source is None for number in numbers):
        clients = load_run_clients(folder, live.description, live.deleted, only=numbers).local
        return Counter({number: len(clients[number].records) for number in numbers})
    owned = all(entries[number].source is None for number in numbers)
    columns = [data.id_column, data.client_column] if owned else [data.id_column]
    ids, *owners = read_names(path, *columns)
    # A file of a client that came back is that client's alone.
    names: Iterable[str | None] = owners[0] if owned else repeat(None)
    known = {entries[number].name if owned else None: number for number in numbers}
    found, registers = Counter[int](), Registers(folder.path, live.description)
    for record, name in zip(ids, names, strict=False):
        if name in known:
            found[known[name]] += _is_held(folder, live, registers, known[name], record)
    return found


def _is_held(folder: RunFolder, live: Live, registers: Registers, number: int, record: str) -> bool:
    register, gone = registers.of(number), live.deleted.get(number, DeletedData())
    if register is not None and record not in register:
        return False
    entry = live.description.clients[number]
    client = Client.simulated(entry.name, (), len(entry.slices), folder.config.data.seed)
    return client.hash_of(record) not in gone.records and client.slice_of(record) not in gone.slices
