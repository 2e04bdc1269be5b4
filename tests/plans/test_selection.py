"""Sequences that serve after deletions: the paper's table, and properties of all plans."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.errors import InputError
from fedsgt.plans import FLOOR, STRATEGIES, choose, choose_solved, rotations, select

Paths = list[tuple[int, ...]]
Served = list[tuple[int, str]]

GROUPS = 5
ORDERS = [path[:depth] for path in permutations(range(GROUPS)) for depth in range(1, GROUPS + 1)]
PATHS = st.lists(st.sampled_from(ORDERS), min_size=1, max_size=7)
DELETED = st.sets(st.integers(0, GROUPS - 1))

# The paper's table: sequence k and the digits printed red; group 1 is deleted, then 5, then 2.
TABLE: list[tuple[str, list[int], Served]] = [
    ("all", [1], [(0, "0"), (1, "50"), (2, "450"), (3, "3450"), (4, "23450")]),
    ("all", [1, 5], [(0, "0"), (2, "4"), (3, "34"), (4, "234")]),
    ("all", [1, 5, 2], [(0, "0"), (2, "4"), (3, "34")]),
    ("min", [1], [(4, "23450")]),
    ("min", [1, 5], [(0, "0"), (4, "234")]),
    ("min", [1, 5, 2], [(0, "0"), (3, "34")]),
    ("long", [1], [(4, "23450")]),
    ("long", [1, 5], [(4, "234")]),
    ("long", [1, 5, 2], [(3, "34")]),
]


def live(path: tuple[int, ...], deleted: set[int]) -> tuple[int, ...]:
    kept = 0
    while kept < len(path) and path[kept] not in deleted:
        kept += 1
    return path[:kept]


@pytest.mark.parametrize(("strategy", "deleted", "served"), TABLE)
def test_the_papers_table(strategy: str, deleted: list[int], served: Served) -> None:
    chosen = select(strategy, rotations(6).sequences, deleted)
    assert [(index, "".join(map(str, prefix))) for index, prefix, _ in chosen] == served


@pytest.mark.parametrize(("strategy", "deleted", "served"), TABLE)
def test_weights_are_in_proportion_to_the_live_modules(
    strategy: str, deleted: list[int], served: Served
) -> None:
    chosen = select(strategy, rotations(6).sequences, deleted)
    total = sum(len(prefix) for _, prefix in served)
    assert [weight for *_, weight in chosen] == [len(prefix) / total for _, prefix in served]


def test_all_sequences_serve_before_any_deletion() -> None:
    chosen = select("all", rotations(4).sequences, [])
    assert chosen == [(index, path, 0.25) for index, path in enumerate(rotations(4).sequences)]
    assert select("min", rotations(4).sequences, []) == [(0, (0, 1, 2, 3), 1.0)]
    assert select("long", rotations(4).sequences, []) == [(0, (0, 1, 2, 3), 1.0)]


def test_a_shared_live_prefix_counts_once_under_the_lowest_index() -> None:
    paths = [(3,), (0, 1, 2), (0, 1, 3), (0, 1, 2)]
    assert select("all", paths, [2, 3]) == [(1, (0, 1), 1.0)]
    assert select("all", paths, [2]) == [(0, (3,), 1 / 6), (1, (0, 1), 2 / 6), (2, (0, 1, 3), 3 / 6)]


def test_a_prefix_of_another_serving_module_still_serves() -> None:
    assert select("all", [(0, 2), (0, 1)], [2]) == [(0, (0,), 1 / 3), (1, (0, 1), 2 / 3)]


def test_min_keeps_the_lowest_index_of_equal_sets() -> None:
    assert select("min", [(2,), (1, 0), (0, 1)], []) == [(0, (2,), 1 / 3), (1, (1, 0), 2 / 3)]


def test_long_takes_the_lowest_index_on_a_tie() -> None:
    assert select("long", [(2,), (1, 0), (0, 1)], []) == [(1, (1, 0), 1.0)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_serves_when_exhausted(strategy: str) -> None:
    assert select(strategy, rotations(4).sequences, range(4)) == []
    assert select(strategy, [(0, 1), (0, 2)], {0}) == []


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        select("best", [(0,)], [])
    assert str(caught.value) == "strategy: 'best' is unknown; one of all, min, long, merged"


def test_merged_averages_what_all_takes() -> None:
    paths = [(3, 2), (0, 1, 2), (0, 1, 3)]
    assert select("merged", paths, [2]) == select("all", paths, [2])


@given(paths=PATHS, deleted=DELETED, strategy=st.sampled_from(sorted(STRATEGIES)))
def test_what_serves_is_live_and_weighted(paths: Paths, deleted: set[int], strategy: str) -> None:
    chosen = select(strategy, paths, deleted)
    assert bool(chosen) == any(path[0] not in deleted for path in paths)
    for index, prefix, weight in chosen:
        assert prefix == live(paths[index], deleted) != ()
        assert weight == len(prefix) / sum(len(other) for _, other, _ in chosen)
    assert not chosen or sum(weight for *_, weight in chosen) == pytest.approx(1)
    assert [index for index, *_ in chosen] == sorted(index for index, *_ in chosen)


@given(paths=PATHS, deleted=DELETED)
def test_all_serves_every_distinct_live_module_once(paths: Paths, deleted: set[int]) -> None:
    prefixes = [prefix for _, prefix, _ in select("all", paths, deleted)]
    assert len(prefixes) == len(set(prefixes))
    assert set(prefixes) == {live(path, deleted) for path in paths} - {()}


@given(paths=PATHS, deleted=DELETED)
def test_min_serves_the_sets_of_all_that_none_contains(paths: Paths, deleted: set[int]) -> None:
    everything = [(index, prefix) for index, prefix, _ in select("all", paths, deleted)]
    chosen = [(index, prefix) for index, prefix, _ in select("min", paths, deleted)]
    assert set(chosen) <= set(everything)
    held = [set(prefix) for _, prefix in everything]
    largest = [groups for groups in held if not any(groups < other for other in held)]
    assert {frozenset(prefix) for _, prefix in chosen} == {frozenset(groups) for groups in largest}
    assert len({frozenset(prefix) for _, prefix in chosen}) == len(chosen)
    for index, prefix in chosen:
        assert index == min(at for at, other in everything if set(other) == set(prefix))


@given(paths=PATHS, deleted=DELETED)
def test_long_serves_one_of_the_longest(paths: Paths, deleted: set[int]) -> None:
    lengths = [len(live(path, deleted)) for path in paths]
    chosen = select("long", paths, deleted)
    assert [index for index, *_ in chosen] == ([lengths.index(max(lengths))] if max(lengths) else [])


@given(
    paths=PATHS,
    deleted=DELETED,
    strategy=st.sampled_from(sorted(STRATEGIES)),
    names=st.permutations(range(GROUPS)),
)
def test_names_of_groups_do_not_matter(
    paths: Paths, deleted: set[int], strategy: str, names: list[int]
) -> None:
    renamed = select(strategy, [tuple(names[g] for g in path) for path in paths], {names[g] for g in deleted})
    assert renamed == [
        (index, tuple(names[g] for g in prefix), weight)
        for index, prefix, weight in select(strategy, paths, deleted)
    ]


@given(paths=PATHS, deleted=DELETED, strategy=st.sampled_from(sorted(STRATEGIES)))
def test_repeating_sequences_or_requests_changes_nothing(
    paths: Paths, deleted: set[int], strategy: str
) -> None:
    expected = select(strategy, paths, deleted)
    assert select(strategy, [*paths, *paths], deleted) == expected
    assert select(strategy, paths, [*sorted(deleted, reverse=True), *deleted]) == expected


@given(paths=PATHS, deleted=DELETED, more=DELETED)
def test_a_further_deletion_only_takes_away(paths: Paths, deleted: set[int], more: set[int]) -> None:
    before = {index: prefix for index, prefix, _ in select("all", [*paths], deleted)}
    for _, prefix, _ in select("all", paths, deleted | more):
        assert any(prefix == old[: len(prefix)] for old in before.values())


def test_solved_heads_weigh_chains_by_the_square_of_their_depth() -> None:
    found = choose_solved("all", [(0, 1), (), (2,)])
    assert [one[:2] for one in found] == [(0, (0, 1)), (2, (2,)), (FLOOR, ())]
    assert [weight for _, _, weight in found] == pytest.approx([4 / 5.5, 1 / 5.5, 0.5 / 5.5])
    assert choose_solved("long", [(), ()]) == [(FLOOR, (), 1.0)]


@given(PATHS, DELETED, st.sampled_from(sorted(STRATEGIES)))
def test_solved_heads_choose_the_same_sequences_and_the_bare_backbone(
    paths: Paths, deleted: set[int], strategy: str
) -> None:
    prefixes = [live(path, deleted) for path in paths]
    found = choose_solved(strategy, prefixes)
    assert [one[:2] for one in found[:-1]] == [one[:2] for one in choose(strategy, prefixes)]
    assert found[-1][:2] == (FLOOR, ())
    assert sum(weight for _, _, weight in found) == pytest.approx(1)
