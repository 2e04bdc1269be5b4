"""Records that deletions have left, and the chances of groups that follow from them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from paper_run import describe, request_entry

from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry
from fedsgt.runs.records_left import records_left, request_chances, whole_clients_withstood
from fedsgt.runs.state import Live


def request(position: int, groups: Sequence[int], **part: object) -> Entry:
    body = {"parts": [part] if part else [], "groups": list(groups), "modules_died": 0}
    return Entry(position, Kind.REQUEST, "", body, "", "")


def test_records_left_are_those_of_the_description_without_later_deletions() -> None:
    def part(number: int, slices: list[int], counts: list[int]) -> dict[str, object]:
        return {"number": number, "slices": slices, "counts": counts}

    requests = (
        request_entry(2, [0], part(0, [0], [4])),  # the description is without these already
        request_entry(4, [0], part(0, [0, 1], [1, 2]), part(1, [1], [5])),
        request_entry(7, [0], part(0, [1], [3])),
    )
    live = Live(describe([(0, 1)], [10, 20], as_of=2), 7, requests)
    assert [records_left(live, number) for number in (0, 1)] == [[9, 5], [20, 15]]


def test_a_request_is_as_likely_as_there_are_records_left() -> None:
    description = describe([(0, 1, 2)], [10, 20, 30])
    assert request_chances(Live(description, 1, ())) == pytest.approx([20 / 120, 40 / 120, 60 / 120])
    slice_gone = request(2, [2], number=2, scope="slice", slices=[0], records=[], counts=[30], count=30)
    assert request_chances(Live(description, 2, (slice_gone,))) == pytest.approx([20 / 90, 40 / 90, 30 / 90])
    some_gone = request(
        2, [0], number=0, scope="records", slices=[0, 1], records=["a"] * 8, counts=[3, 5], count=8
    )
    assert request_chances(Live(description, 2, (some_gone,))) == pytest.approx(
        [12 / 112, 40 / 112, 60 / 112]
    )


def test_records_that_the_description_already_lacks_are_not_taken_off_again() -> None:
    description = describe([(0, 1)], [10, 10], as_of=2)
    old = request(2, [0], number=0, scope="records", slices=[0], records=["a"] * 5, counts=[5], count=5)
    assert request_chances(Live(description, 2, (old,))) == pytest.approx([0.5, 0.5])


def test_with_no_record_left_anywhere_all_groups_are_alike() -> None:
    assert request_chances(Live(describe([(0, 1)], [0, 0]), 1, ())).tolist() == [0.5, 0.5]


def test_whole_clients_withstood_are_those_that_can_still_leave() -> None:
    orders = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    description = describe(orders, [10, 20, 30])  # client i is in group i alone
    assert tuple(map(float, whole_clients_withstood(Live(description, 1, ())))) == (3, 3)
    gone = request(2, [1], number=1, scope="client", slices=[0, 1], records=[], counts=[20, 20], count=40)
    assert tuple(map(float, whole_clients_withstood(Live(description, 2, (gone,))))) == (2, 2)
    all_hit = request(3, [0, 2], number=0, scope="slice", slices=[0], records=[], counts=[1], count=1)
    assert tuple(map(float, whole_clients_withstood(Live(description, 3, (gone, all_hit))))) == (0, 2)
