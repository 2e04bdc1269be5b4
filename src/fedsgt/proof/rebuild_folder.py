"""The folder that a rebuild is given: the retained records of some modules' groups, and nothing else.

Statistics are made of all retained records, so with them it has those of all groups. It looks like a run's
folder without a ledger. Deleted records are not marked in it; they are not there. For remote clients it has
no records, only the ids of the deleted ones, which the clients leave out.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsgt.config import Config, to_toml
from fedsgt.config.sections import Data, Engine
from fedsgt.data import Client, Record, labels_of, load_dataset
from fedsgt.files.optional import require
from fedsgt.runs.artefacts import CONFIG, DESCRIPTION
from fedsgt.runs.description import Description, ModuleEntry
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import ClientData, columns_of, load_run_clients
from fedsgt.runs.state import DeletedData, Live
from fedsgt.runs.statistics import StatisticName

RECORDS, NOTES = "records", "notes.json"
TookPart = Mapping[str, Sequence[Sequence[str]]]


@dataclass(frozen=True)
class Notes:
    """Facts that a rebuild needs besides the run's description and its records."""

    took_part: TookPart
    """Clients of each round of each module."""
    erased: Mapping[int, DeletedData]
    """Records that remote clients must leave out, by the number of the client."""
    statistics: tuple[StatisticName, ...] = ()
    """Statistics to make."""


def write_retained(
    path: Path,
    folder: RunFolder,
    live: Live,
    modules: Sequence[ModuleEntry],
    took_part: TookPart,
    statistics: Sequence[StatisticName] = (),
) -> None:
    """Write everything that these modules and statistics may depend on; modules must include their parents.

    `took_part` has the clients of each round of each module, so that it is trained with the same ones again.
    """
    described = _described(live.description, modules)
    gone = {
        number: {"slices": sorted(erased.slices), "records": sorted(erased.records)}
        for number, erased in live.deleted.items()
    }
    remote = folder.config.data.partition == "remote"
    notes = {
        "took_part": took_part,
        "erased": gone if remote else {},
        "statistics": [[name.chain, name.client, name.mark] for name in statistics],
    }
    if remote:
        settings = _wait_for_all(folder.config)
    else:
        settings = _write_records(path, folder, live, described, {name.client for name in statistics})
    (path / NOTES).write_text(json.dumps(notes), encoding="utf-8")
    (path / CONFIG).write_text(to_toml(settings), encoding="utf-8")
    (path / DESCRIPTION).write_text(described.to_text(), encoding="utf-8")


def _write_records(
    path: Path, folder: RunFolder, live: Live, described: Description, whole: Collection[int]
) -> Config:
    """Write a file of records for each client, and return the settings to read them with.

    Clients of the numbers in `whole` give all their records, others those of the modules' groups.
    """
    data = load_run_clients(folder, live.description, live.deleted)
    modules = described.modules
    # A sample of modules needs the records of its own groups only; the others stay out of the folder.
    groups = {group for entry in modules for group in entry.groups}
    (path / RECORDS).mkdir()
    width = 1
    for number, (client, of) in enumerate(zip(data.local, described.groups_of, strict=True)):
        slices = [
            part for part, group in zip(client.cut(), of, strict=True) if group in groups or number in whole
        ]
        records = [record for part in slices for record in part]
        if records:
            _write_file(_file(path, number), records)
            width = len(records[0].content)  # number of input columns, the same for all records
    return _settings(folder.config, width)


def _wait_for_all(run: Config) -> Config:
    """Return settings that wait for absent clients: without one that took part, other bytes prove nothing."""
    return run.model_copy(update={"engine": run.engine.model_copy(update={"absent": "wait"})})


def read_notes(folder: RunFolder) -> Notes:
    """Return the notes for a rebuild."""
    notes = json.loads((folder.path / NOTES).read_text(encoding="utf-8"))
    erased = {
        int(number): DeletedData(frozenset(gone["slices"]), frozenset(gone["records"]))
        for number, gone in notes["erased"].items()
    }
    return Notes(notes["took_part"], erased, tuple(StatisticName(*name) for name in notes["statistics"]))


def read_retained(folder: RunFolder) -> ClientData:
    """Return the clients of the folder, numbered, named and sliced as in the run."""
    known, seed, clients = folder.description, folder.config.data.seed, []
    for number, entry in enumerate(known.clients):
        file, records = _file(folder.path, number), tuple[Record, ...]()
        if file.exists():
            records = load_dataset(str(file), columns_of(folder.config), labels=known.labels).records
        clients.append(Client.simulated(entry.name, records, len(entry.slices), seed))
    return ClientData(tuple(clients), known.labels, None)


def _file(path: Path, client: int) -> Path:
    """Return the file of one client; each has its own, as two clients may have records of the same id."""
    return path / RECORDS / f"{client}.parquet"


def _write_file(path: Path, records: Sequence[Record]) -> None:
    """Write a parquet file of these records.

    It is not compressed, so that a plain search of its bytes shows what is and what is not in it.
    """
    inputs = zip(*(record.content for record in records), strict=True)
    columns: dict[str, list[Any]] = {"id": [record.id for record in records], "label": labels_of(records)}
    columns |= {_input(index): list(values) for index, values in enumerate(inputs)}
    # If a deletion destroys the file, its certificate has the file's hash, which must not tell a record.
    rows = require("pyarrow").table(columns, metadata={"salt": secrets.token_hex(16)})
    require("pyarrow.parquet").write_table(rows, path, compression="none", use_dictionary=False)


def _input(index: int) -> str:
    return f"input-{index}"


def _settings(run: Config, width: int) -> Config:
    """Return the settings that shape modules, without the places of the run's records, store and ledger."""
    return Config(
        data=Data(seed=run.data.seed, input_columns=[_input(index) for index in range(width)]),
        model=run.model,
        peft=run.peft,
        training=run.training,
        privacy=run.privacy,
        heads=run.heads,
        engine=Engine(workers=run.engine.workers),
    )


def _described(description: Description, modules: Sequence[ModuleEntry]) -> Description:
    """Describe the run as if it had wanted these modules only."""
    # The longest prefixes are the sequences: each module that no other one continues.
    inner = {tuple(entry.groups[:-1]) for entry in modules}
    return description.model_copy(
        update={
            # Sources of clients that rejoined are left out: the folder's own files take their place.
            "clients": [client.model_copy(update={"source": None}) for client in description.clients],
            # Without a module, the run's own stay: statistics under the bare backbone need none of them.
            "sequences": [entry.groups for entry in modules if tuple(entry.groups) not in inner]
            or description.sequences,
            "modules": list(modules),
        }
    )
