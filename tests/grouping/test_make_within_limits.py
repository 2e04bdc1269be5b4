"""Balance and limits for every method; and `impossible` is said exactly when it is."""

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsgt.errors import InputError
from fedsgt.grouping import METHODS, Grouping, make
from fedsgt.grouping.make import WHOLE_CLIENTS
from fedsgt.grouping.problem import read_problem
from fedsgt.grouping.within_limits import integer_program, packing

Case = tuple[list[int], int, list[int | None]]


@st.composite
def cases(draw: st.DrawFn, most_groups: int = 5, limits: st.SearchStrategy[int | None] | None = None) -> Case:
    slices = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    groups = draw(st.integers(1, min(most_groups, sum(slices))))
    each = limits if limits is not None else st.one_of(st.none(), st.integers(1, 3))
    return slices, groups, draw(st.lists(each, min_size=len(slices), max_size=len(slices)))


def possible(slices: list[int], groups: int, limits: list[int | None]) -> bool:
    """Try everything, client by client; only the multiset of remaining room matters."""
    size, extra = divmod(sum(slices), groups)

    @cache
    def place(client: int, rooms: tuple[int, ...]) -> bool:
        if client == len(slices):
            return True
        limit = limits[client] or groups
        return any(place(client + 1, rest) for rest in set(spreads(rooms, slices[client], limit)))

    return place(0, (size,) * (groups - extra) + (size + 1,) * extra)


def spreads(rooms: tuple[int, ...], left: int, limit: int) -> Iterator[tuple[int, ...]]:
    """Return the room that can remain after one client took its share."""

    def take(index: int, left: int, limit: int, rest: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if index == len(rooms):
            if left == 0:
                yield tuple(sorted(rest))
            return
        for count in range(min(left, rooms[index]) + 1 if limit else 1):
            yield from take(index + 1, left - count, limit - (count > 0), (*rest, rooms[index] - count))

    return take(0, left, limit, ())


def grouped(method: str, case: Case, seed: int = 0) -> Grouping:
    slices, groups, limits = case
    rng = np.random.default_rng(seed)
    clusters = rng.integers(2, size=len(slices)) if method == "affinity" else None
    embeddings = rng.random((sum(slices), 3))
    return make(method, slices, groups, limits=limits, seed=seed, embeddings=embeddings, clusters=clusters)


def check(grouping: Grouping, case: Case) -> None:
    slices, groups, limits = case
    size, extra = divmod(sum(slices), groups)
    assert grouping.group_sizes().tolist().count(size + 1) == extra
    assert grouping.group_sizes().tolist().count(size) == groups - extra
    assert grouping.counts().sum(axis=1).tolist() == slices
    flat = np.concatenate([grouping.members(group) for group in range(groups)])
    assert sorted(flat.tolist()) == list(range(sum(slices)))
    for client, limit in enumerate(limits):
        assert np.count_nonzero(grouping.counts()[client]) <= (limit or groups)


@pytest.mark.parametrize("method", [method for method in METHODS if method not in WHOLE_CLIENTS])
@settings(max_examples=40)
@given(case=cases(), seed=st.integers(0, 9))
def test_every_method_groups_exactly_what_can_be_grouped(method: str, case: Case, seed: int) -> None:
    if not possible(*case):
        with pytest.raises(InputError, match=r"^client \d+: "):
            grouped(method, case, seed)
        return
    grouping = grouped(method, case, seed)
    check(grouping, case)
    assert (grouped(method, case, seed).group_of == grouping.group_of).all()


@settings(max_examples=150)
@given(case=cases(most_groups=8, limits=st.just(1)))
def test_limit_one_is_bin_packing(case: Case) -> None:
    if possible(*case):
        check(grouped("random", case), case)
    else:
        with pytest.raises(InputError):
            grouped("random", case)


@settings(max_examples=80)
@given(case=cases())
def test_both_programmes_agree_with_trying_everything(case: Case) -> None:
    try:
        problem = read_problem(*case)
    except InputError:
        assert not possible(*case)
        return
    if not problem.binding:
        return
    patterns = integer_program.patterns_of(integer_program.kinds_of(problem), problem, 10**6)
    assert patterns is not None
    by_pattern = integer_program.solve_by_pattern(problem, integer_program.kinds_of(problem), patterns)
    for pieces in (by_pattern, integer_program.solve_by_client(problem)):
        assert (pieces is not None) == possible(*case)
        if pieces is not None:
            group_of = packing.fill(problem, pieces, np.random.default_rng(0))
            check(Grouping(problem.client_of, group_of, problem.groups, "random", False), case)


def three_partition(groups: int, size: int, rng: np.random.Generator) -> list[int]:
    """Clients that fill every group in threes, and in hardly any other way."""
    slices: list[int] = []
    while len(slices) < 3 * groups:
        first, second = rng.integers(size // 4 + 1, size // 2, size=2).tolist()
        if size / 4 < size - first - second < size / 2:
            slices += [first, second, size - first - second]
    rng.shuffle(slices)
    return slices


def test_the_integer_programme_finds_what_packing_misses() -> None:
    missed = 0
    for seed in range(4):
        slices = three_partition(5, 100, np.random.default_rng(seed))
        problem, rng = read_problem(slices, 5, 1), np.random.default_rng(seed)
        orders = [packing.hardest_first(problem, np.arange(15), rng, jitter / 20) for jitter in range(20)]
        missed += all(packing.pack(problem, order)[1] is not None for order in orders)
        check(make("random", slices, 5, limits=1, seed=seed), (slices, 5, [1] * len(slices)))
    assert missed


def test_the_integer_programme_alone_is_enough() -> None:
    case: Case = ([4, 4, 3, 3, 2, 1, 1], 3, [2, 1, 1, 2, 1, None, None])
    problem = read_problem(*case)
    for solve in (integer_program.solve, integer_program.solve_by_client):
        pieces = solve(problem)
        assert pieces is not None
        group_of = packing.fill(problem, pieces, np.random.default_rng(0))
        check(Grouping(problem.client_of, group_of, problem.groups, "random", False), case)


def test_undecided_is_not_called_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_program, "MOST_VARIABLES", 0)
    with pytest.raises(InputError, match=r"client \d+: .* nor ruled out"):
        make("random", [5] * 40, 16, limits=1)


def test_many_alike_clients_are_refused_at_once() -> None:
    # 13 or 12 slices per group hold two whole clients of 5, so 16 groups hold 32 of the 40.
    with pytest.raises(InputError, match=r"^client \d+: 5 slices in at most 1 of 16 groups: there is no way"):
        make("random", [5] * 40, 16, limits=1)


def test_a_client_that_just_fits_is_accepted() -> None:
    # 21 slices in 4 groups: 6, 5, 5, 5. Eleven in two groups need the large one, twelve do not fit.
    check(make("random", [11, 10], 4, limits=[2, None]), ([11, 10], 4, [2, None]))
    with pytest.raises(
        InputError, match=r"client 0: 12 slices .* \(only 1 of the groups can hold 6, the others 5\)"
    ):
        make("random", [12, 9], 4, limits=[2, None])


def test_unknown_methods_and_seeds_are_refused() -> None:
    with pytest.raises(InputError, match="'best' is not one of random, bac, centered, affinity"):
        make("best", [1], 1)
    with pytest.raises(InputError, match="seed: -1 is not"):
        make("random", [1], 1, seed=-1)
