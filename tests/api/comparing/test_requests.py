"""Streams of requests: what each kind deletes, that it is drawn by the seed alone, and wrong ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fedsgt.api.comparing.requests import KINDS, AnyStream, Request, check_stream, make_stream
from fedsgt.data import Client, Record
from fedsgt.errors import InputError
from fedsgt.unlearning.request import Deletion


def client(name: str, records: int, slices: int = 2) -> Client:
    return Client.simulated(name, [Record(f"{name}-{n:03d}", ("x",), 0) for n in range(records)], slices, 0)


CLIENTS = [client("a", 60), client("b", 60), client("c", 0)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_deletes_no_record_twice_and_ends_with_the_last(kind: str) -> None:
    stream = make_stream(kind, CLIENTS, 1000, 0)
    taken = Counter((one.client, record) for one in stream for record in one.records)
    assert set(taken.values()) == {1}
    assert len(taken) == 120


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_drawn_by_its_seed(kind: str) -> None:
    assert make_stream(kind, CLIENTS, 5, 3) == make_stream(kind, CLIENTS, 5, 3)
    streams = {tuple(make_stream(kind, CLIENTS, 5, seed)) for seed in range(6)}
    assert len(streams) > 1
    # A longer stream begins as a shorter one.
    assert make_stream(kind, CLIENTS, 2, 3) == make_stream(kind, CLIENTS, 5, 3)[:2]


def test_requests_of_slices_delete_a_tenth_of_one_slice() -> None:
    sizes = {record.id: len(part) for one in CLIENTS for part in one.cut() for record in part}
    places = {
        record.id: (one.name, number)
        for one in CLIENTS
        for number, part in enumerate(one.cut())
        for record in part
    }
    for request in make_stream("slices", CLIENTS, 8, 0):
        assert len({places[record] for record in request.records}) == 1
        assert len(request.records) == sizes[request.records[0]] // 10


def test_requests_of_clients_delete_all_that_one_has() -> None:
    stream = make_stream("clients", CLIENTS, 10, 0)
    assert sorted((one.client, len(one.records)) for one in stream) == [("a", 60), ("b", 60)]


def test_requests_of_records_delete_one() -> None:
    assert all(len(one.records) == 1 for one in make_stream("records", CLIENTS, 10, 0))


def test_given_requests_become_records() -> None:
    some = CLIENTS[0].cut()[1]
    stream: AnyStream = [
        ("a", [some[0].id]),
        Deletion("a", slices=(1,)),  # without the record that is gone already
        Deletion("b", records=("b-003",)),
        Deletion("b"),
    ]
    found = make_stream(stream, CLIENTS, 1, 0)
    assert found[0] == Request("a", (some[0].id,))
    assert found[1].records == tuple(record.id for record in some[1:])
    assert len(found[3].records) == 59


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        ([("z", ["a-001"])], "request 1: no client is called 'z'; there are a, b, c"),
        ([("a", ["b-001"])], "request 1: client a has no record 'b-001'"),
        ([("a", ["a-001"]), ("a", ["a-001", "a-002"])], "request 2: records of client a that an earlier"),
        ([Deletion("a"), Deletion("a")], "request 2: records of client a that an earlier"),
        ([Deletion("a", slices=(2,))], "client a has no slice 2; it has 0 to 1"),
    ],
)
def test_given_requests_that_cannot_be_made(stream: Any, words: str) -> None:
    assert check_stream(stream) == []
    with pytest.raises(InputError, match=words):
        make_stream(stream, CLIENTS, 10, 0)


def test_every_wrong_request_is_told() -> None:
    wrong: Any = [("a", "a-001"), 7, ("a", []), ("a", [3]), Deletion("a")]
    assert [line.partition(" is ")[0] for line in check_stream(wrong)] == [
        f"stream: request {number}" for number in (1, 2, 3, 4)
    ]
    assert "one of slices, clients, records" in check_stream("slice")[0]
    assert "is no stream" in check_stream([])[0]


def test_a_system_with_other_clients_gets_the_same_records() -> None:
    request = Request("a", ("a-001", "a-002", "a-003"))
    assert request.deletions(None) == [Deletion("a", request.records)]
    owners = {"a-001": "y", "a-002": "x", "a-003": "y"}
    assert request.deletions(owners) == [Deletion("x", ("a-002",)), Deletion("y", ("a-001", "a-003"))]
