"""The state of a run: which groups, modules and prefixes are live after which entries of the ledger."""

from __future__ import annotations

from itertools import chain, combinations
from pathlib import Path

import pytest
from paper_run import delete, describe, fill, paper_run, rebuild, request_entry

from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry
from fedsgt.runs.folder import open_run
from fedsgt.runs.records_left import whole_clients_withstood
from fedsgt.runs.state import DeletedData, Live, deleted_after, hit_after, modules_in

ROTATIONS = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]
# Two branches below [0, 1], and one sequence beside them.
BRANCHED = [(0, 1, 2, 3), (0, 1, 3), (2, 3)]
SETS = [set(found) for found in chain.from_iterable(combinations(range(4), size) for size in range(5))]


def keys_of(live: Live) -> set[str]:
    return {entry.key for entry in live.modules()}


def part(number: int, scope: str, slices: list[int], records: list[str] | None = None) -> dict[str, object]:
    return {"number": number, "scope": scope, "slices": slices, "records": records or []}


def test_a_group_is_dead_from_the_first_request_after_the_description() -> None:
    requests = (request_entry(2, [0]), request_entry(4, [1]), request_entry(6, [1, 2]))
    hits = [hit_after(requests, position) for position in (0, 2, 3, 4, 6)]
    assert hits == [{0, 1, 2}, {1, 2}, {1, 2}, {1, 2}, set()]
    live = Live(describe(ROTATIONS, [1, 1, 1], as_of=2), 4, requests[:2])
    assert live.dead == {1}
    assert live.last_request == 4
    assert Live(live.description, 1, ()).last_request == 0


@pytest.mark.parametrize("dead", SETS, ids=str)
def test_every_module_is_live_or_dead(dead: set[int]) -> None:
    description = describe(BRANCHED, [1, 1, 1, 1])
    live = Live(description, 2, (request_entry(2, sorted(dead)),))
    assert [tuple(entry.groups) for entry in live.modules()] == [
        prefix for prefix in description.keys if dead.isdisjoint(prefix)
    ]
    assert {entry.key for entry in live.dead_modules()} == {*description.keys.values()} - keys_of(live)


def test_modules_in_groups_come_once_and_groups_of_no_module_are_passed_over() -> None:
    description = describe(BRANCHED, [1, 1, 1, 1])
    found = [tuple(entry.groups) for entry in modules_in(description, [3, 2, 9])]
    assert sorted(found) == [(0, 1, 2), (0, 1, 2, 3), (0, 1, 3), (2,), (2, 3)]


@pytest.mark.parametrize("dead", SETS, ids=str)
def test_what_a_hit_kills_is_what_was_live_and_is_not_any_more(dead: set[int]) -> None:
    """Against the definition, for every set of groups on top of every set of dead ones."""
    description = describe(BRANCHED, [1, 1, 1, 1])
    live = Live(description, 2, (request_entry(2, sorted(dead)),))
    for groups in SETS:
        after = live.after([request_entry(3, sorted(groups))])
        died = keys_of(live) - keys_of(after)
        assert {description.keys[prefix] for prefix in live.dying(groups)} == died


def test_a_live_prefix_ends_before_the_first_module_that_is_dead_or_missing() -> None:
    description = describe(BRANCHED, [1, 1, 1, 1])
    everything = set(description.keys.values())
    fresh, hit = Live(description, 1, ()), Live(description, 2, (request_entry(2, [2]),))
    assert fresh.prefixes(everything) == BRANCHED
    # A dead module that is still on disk is not served.
    assert hit.prefixes(everything) == [(0, 1), (0, 1, 3), ()]
    # Nor is a module whose parent is missing, even if it is there itself.
    assert fresh.prefixes(everything - {description.keys[0, 1]}) == [(0,), (0,), (2, 3)]
    assert fresh.prefixes(()) == [(), (), ()]


def test_entries_one_by_one_or_at_once_come_to_the_same() -> None:
    entries = [
        request_entry(2, [0], part(0, "slice", [1])),
        Entry(3, Kind.CONDEMNED, "", {"request": 2, "artefacts": []}, "", ""),
        Entry(4, Kind.DESTROYED, "", {"request": 2}, "", ""),
        request_entry(5, [2], part(2, "records", [0], ["a"])),
    ]
    begin = Live(describe(ROTATIONS, [1, 1, 1]), 1, ())
    whole, step = begin.after(entries), begin
    for entry in entries:
        step = step.after([entry])
    assert step == whole
    assert (whole.position, set(whole.finished), set(whole.dead)) == (5, {2}, {0, 2})
    assert whole.deleted == {0: DeletedData(slices=frozenset({1})), 2: DeletedData(records=frozenset({"a"}))}
    assert begin.after([]) == begin


def test_the_state_at_a_request_keeps_later_deletions_deleted() -> None:
    """Data that is deleted now must not come back because somebody looks at the past."""
    first, second = request_entry(2, [0], part(0, "client", [0, 1])), request_entry(3, [1])
    now = Live(describe(ROTATIONS, [1, 1, 1]), 1, ()).after(
        [first, second, request_entry(4, [2], part(2, "slice", [0]))]
    )
    then = now.until(second)
    assert (then.position, then.requests, set(then.dead)) == (3, (first, second), {0, 1})
    assert then.deleted == now.deleted


def test_deleted_data_add_up_by_client() -> None:
    before = {0: DeletedData(frozenset({0}), frozenset({"a"}))}
    requests = [
        request_entry(2, [0], part(0, "records", [1], ["b"]), part(1, "client", [0, 1])),
        request_entry(3, [0], part(0, "slice", [1])),
    ]
    assert deleted_after(before, requests) == {
        # The slice of a single record is not deleted whole.
        0: DeletedData(frozenset({0, 1}), frozenset({"a", "b"})),
        1: DeletedData(frozenset({0, 1})),
    }
    assert deleted_after(before, requests[:1])[0].slices == {0}
    assert before == {0: DeletedData(frozenset({0}), frozenset({"a"}))}


def test_hit_slices_are_named_once_and_only_since_the_description() -> None:
    description = describe(ROTATIONS, [1, 1, 1], as_of=2)
    requests = (
        request_entry(2, [0], part(0, "slice", [0])),
        request_entry(3, [2], part(2, "records", [1], ["a"])),
        request_entry(4, [1, 2], part(2, "client", [0, 1]), part(1, "slice", [0])),
    )
    marks = [client.slices for client in description.clients]
    assert Live(description, 4, requests).hit_slices() == [marks[2][1], marks[2][0], marks[1][0]]


def test_a_run_that_is_open_sees_what_others_write(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe(ROTATIONS, [5, 5, 5]))
    fill(folder)
    other = open_run(folder.path)
    before = other.live()
    assert other.live() is before, "nothing is read again while nothing changes"
    delete(folder, 2)
    assert other.live().dead == {2}
    rebuild(folder)
    after = other.live()
    assert (after.dead, after.description.as_of) == (frozenset(), folder.live().description.as_of)
    assert after.deleted == {2: DeletedData(slices=frozenset({0}))}, "as it is never brought back"
    assert before.dead == frozenset()


def test_a_run_without_modules_has_a_state() -> None:
    description = describe([], [10, 20, 30])
    live = Live(description, 2, (request_entry(2, [1]),))
    assert description.plan_made().modules == ()
    assert live.depths.tolist() == []
    assert (live.modules(), live.dead_modules(), live.dying([0, 2]), live.prefixes(())) == ([], [], set(), [])
    assert live.dead == {1}
    assert tuple(map(float, whole_clients_withstood(live))) == (0, 3)
