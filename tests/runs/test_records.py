"""Clients with their records: deleted ones are left out, no other is copied, and none is shown."""

from __future__ import annotations

import pytest

from fedsgt.config import Config, load
from fedsgt.data import RemoteClient
from fedsgt.errors import InputError
from fedsgt.runs.records import ClientData, columns_of, input_columns, load_clients, load_test
from fedsgt.runs.state import DeletedData

REMOTE = RemoteClient("north", ("a" * 64,), (3,), "key", "b" * 64, {"threads": "1"})


def config(*overrides: str) -> Config:
    return load(None, ["data.limit=60", "data.test_limit=20", "data.clients=3", *overrides])


def test_deleted_slices_and_records_are_left_out_and_nothing_else_changes() -> None:
    data = load_clients(config())
    first, second, third = data.local
    gone = second.records[0]
    left = data.without(
        {
            0: DeletedData(slices=frozenset({1})),
            1: DeletedData(records=frozenset({second.hash_of(gone.id)})),
        }
    ).local
    assert left[0].records == tuple(r for r in first.records if r not in first.cut()[1])
    assert left[1].records == tuple(record for record in second.records if record is not gone)
    assert left[2] is third
    kept = {id(record) for client in left for record in client.records}
    assert kept < {id(record) for client in data.local for record in client.records}, "no content is copied"


def test_a_run_has_local_clients_or_remote_ones() -> None:
    local = load_clients(config())
    assert local.clients == local.local
    assert ClientData((), 10, None, (REMOTE,)).clients == (REMOTE,)
    with pytest.raises(InputError, match="the records of this run are with its clients, not here"):
        load_clients(config("data.partition=remote"))


def test_the_printed_form_shows_no_record() -> None:
    shown = repr(load_clients(config()))
    assert "digits-" not in shown
    assert "Client(" not in shown


def test_no_client_holds_a_test_record() -> None:
    held = {record.id for client in load_clients(config()).local for record in client.records}
    test = load_test(config(), 10)
    assert len(test) == 20
    assert held.isdisjoint(record.id for record in test.records)


def test_owners_are_read_only_where_they_decide_the_clients() -> None:
    assert columns_of(config()).client is None
    assert columns_of(config("data.partition=given")).client == "client"
    assert input_columns(config("model.task=text")) == ("sentence",)
    assert input_columns(config("data.input_columns=['a', 'b']")) == ("a", "b")
