"""Records that were given to a run in memory, kept in its folder: a file for each client, one for the test.

A deletion takes the rows of deleted records out of these files, as it destroys everything else in the folder
that depends on them. Each row has its slice and its salted hash, so that whoever destroys needs no salt.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsgt.config import Config
from fedsgt.data import Client, Record, labels_of
from fedsgt.errors import InputError
from fedsgt.files.durable import make_folder
from fedsgt.files.optional import require
from fedsgt.runs.state import DeletedData
from fedsgt.store import Folder
from fedsgt.words import one_line

RECORDS, TEST = "records", "test.parquet"
IN_RUN = "#run"
"""Stands in `data.source`, or as a client's source, for the records in the run's own folder.

A configuration in memory has the folder behind it, as in `#run:/home/me/runs/my`; the stored one has not,
so that the folder may be moved.
"""
_ID, _LABEL, _INPUT, _SLICE, _HASH, _CLIENT = "id", "label", "input-", "slice", "hash", b"client"


def write_kept(run: Path, clients: Mapping[int, Client], test: Sequence[Record] = ()) -> None:
    """Write the records of these clients, by number, and the test records into the run's folder."""
    make_folder(run / RECORDS, 0o700)
    files = Folder(run)
    for number, client in clients.items():
        files.write(f"{RECORDS}/{number}.parquet", _file_of(number, client))
    if test:
        files.write(f"{RECORDS}/{TEST}", _parquet(_table(test)))


def drop_kept(run: Path, number: int) -> None:
    """Remove the file of a client that did not become one of the run."""
    Folder(run).delete(f"{RECORDS}/{number}.parquet")


def read_kept(run: Path, number: int) -> list[Record]:
    """Return the records of the client of this number that are in the run's folder."""
    return _records(run / RECORDS / f"{number}.parquet")


def read_kept_test(run: Path) -> list[Record]:
    """Return the test records that are in the run's folder."""
    return _records(run / RECORDS / TEST)


def holds_deleted(path: Path, deleted: DeletedData, unread: bool = True) -> bool:
    """Whether a client's file holds any of its deleted records; `unread` if nobody can tell."""
    try:
        return any(_gone(_read(path, [_SLICE, _HASH]), deleted))
    except InputError:
        return unread


def check_kept(path: Path) -> None:
    """Raise if a client's file cannot be read."""
    _read(path, [_SLICE, _HASH])


def split_rows(
    data: bytes, deleted: Mapping[int, DeletedData], is_client: Callable[[int], bool] = lambda number: True
) -> tuple[bytes | None, bytes]:
    """Return a client's file without its deleted records, and what stands for those in a certificate.

    The file of somebody who is no client of the run goes as a whole: None is left of it.
    """
    rows = _read(io.BytesIO(data))
    try:
        number = int((rows.schema.metadata or {})[_CLIENT])
        rows.column(_HASH)
    except (KeyError, ValueError):
        raise InputError("not the records of a client of this run; restore the file from a backup") from None
    gone = _gone(rows, deleted.get(number, DeletedData()))
    known = is_client(number)
    gone = gone if known else [True] * len(gone)
    arrow = require("pyarrow")
    left = rows.filter(arrow.array([not one for one in gone], arrow.bool_()))
    codes = [code for code, one in zip(rows.column(_HASH).to_pylist(), gone, strict=True) if one]
    # Salted hashes stand for the rows: a hash of contents would let anybody test guesses.
    return _parquet(left) if known else None, "\n".join(sorted(codes)).encode()


def located(config: Config, run: Path) -> Config:
    """Return the configuration with the place of the run's own records, if its source is those."""
    if config.data.source != IN_RUN:
        return config
    return _with_source(config, f"{IN_RUN}:{run.absolute()}")


def unlocated(config: Config) -> Config:
    """Return the configuration as it is stored: without the place of the run's own records."""
    return config if kept_in(config) is None else _with_source(config, IN_RUN)


def kept_in(config: Config) -> Path | None:
    """Return the run's folder if the source of this configuration is the records in it."""
    name, colon, place = config.data.source.partition(":")
    return Path(place) if name == IN_RUN and colon else None


def _with_source(config: Config, source: str) -> Config:
    return config.model_copy(update={"data": config.data.model_copy(update={"source": source})})


def _file_of(number: int, client: Client) -> bytes:
    arrow, records = require("pyarrow"), client.records
    slices = arrow.array([client.slice_of(record.id) for record in records], arrow.int64())
    codes = arrow.array([client.hash_of(record.id) for record in records], arrow.string())
    rows = _table(records).append_column(_SLICE, slices).append_column(_HASH, codes)
    return _parquet(rows.replace_schema_metadata({_CLIENT: str(number).encode()}))


def _table(records: Sequence[Record]) -> Any:
    arrow = require("pyarrow")
    columns = {
        _ID: arrow.array([record.id for record in records], arrow.string()),
        _LABEL: arrow.array(labels_of(records), arrow.int64()),
    }
    for index, values in enumerate(zip(*(record.content for record in records), strict=True)):
        columns[f"{_INPUT}{index}"] = arrow.array(values)
    return arrow.table(columns)


def _parquet(rows: Any) -> bytes:
    """Return a parquet file without dictionaries and statistics: it holds the rows and nothing about them."""
    file = io.BytesIO()
    require("pyarrow.parquet").write_table(
        rows, file, compression="none", use_dictionary=False, write_statistics=False
    )
    return file.getvalue()


def _gone(rows: Any, deleted: DeletedData) -> list[bool]:
    pairs = zip(rows.column(_SLICE).to_pylist(), rows.column(_HASH).to_pylist(), strict=True)
    return [index in deleted.slices or code in deleted.records for index, code in pairs]


def _records(path: Path) -> list[Record]:
    rows = _read(path)
    inputs = [rows.column(name).to_pylist() for name in rows.column_names if name.startswith(_INPUT)]
    fields = zip(
        rows.column(_ID).to_pylist(), zip(*inputs, strict=True), rows.column(_LABEL).to_pylist(), strict=True
    )
    return [Record(name, content, label) for name, content, label in fields]


def _read(file: Path | io.BytesIO, columns: list[str] | None = None) -> Any:
    where = file if isinstance(file, Path) else "records that this run keeps"
    try:
        with require("pyarrow.parquet").ParquetFile(file) as opened:
            return opened.read(columns=columns)
    except FileNotFoundError:
        raise InputError(
            f"{where}: records that this run keeps are missing; restore the file from a backup"
        ) from None
    except (OSError, require("pyarrow").ArrowException, KeyError) as error:
        raise InputError(f"{where}: damaged ({one_line(error)}); restore it from a backup") from None
