"""Rounds per client and passes over the data, against every grouping and literal rotations."""

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from fedsgt.errors import InputError
from fedsgt.plans import make
from fedsgt.theory import (
    client_rounds_balanced,
    client_rounds_independent,
    groups_joined_balanced,
    groups_joined_independent,
    matched_budget,
    matched_budget_passes,
    passes,
)
from fedsgt.window import Window

BALANCED = [(3, 2, 3), (3, 2, 4), (2, 3, 4), (1, 5, 3), (4, 1, 3), (2, 4, 3), (2, 3, 6), (6, 1, 1)]


def balanced_groupings(slices: int, groups: int) -> Iterator[tuple[int, ...]]:
    for grouping in product(range(groups), repeat=slices):
        sizes = [grouping.count(group) for group in range(groups)]
        if max(sizes) - min(sizes) <= 1:
            yield grouping


def rounds_joined(mine: set[int], groups: int, budget: int) -> int:
    """Phases of all rotations in which a client of these groups holds data of the prefix."""
    sequences = [[(group - offset) % groups for group in range(groups)] for offset in range(budget)]
    return sum(
        not mine.isdisjoint(sequence[:phase]) for sequence in sequences for phase in range(1, groups + 1)
    )


def share(values: Sequence[int], value: int) -> Fraction:
    return Fraction(values.count(value), len(values))


def mean(values: Iterable[int]) -> Fraction:
    listed = list(values)
    return Fraction(sum(listed), len(listed))


@pytest.mark.parametrize(("clients", "slices", "groups"), BALANCED)
def test_balanced_equals_enumeration(clients: int, slices: int, groups: int) -> None:
    mine = [set(grouping[:slices]) for grouping in balanced_groupings(clients * slices, groups)]
    for joined in range(groups + 1):
        expected = share([len(groups_of) for groups_of in mine], joined)
        assert groups_joined_balanced(clients, slices, groups, joined) == expected
    for budget in (1, groups - 1 or 1, groups, 2 * groups):
        expected = mean(rounds_joined(groups_of, groups, budget) for groups_of in mine)
        assert client_rounds_balanced(clients, slices, groups, budget) == expected
    assert client_rounds_balanced(clients, slices, groups) == client_rounds_balanced(
        clients, slices, groups, groups
    )


@pytest.mark.parametrize(("groups", "slices"), [(1, 3), (3, 2), (4, 4), (5, 3)])
def test_independent_equals_enumeration(groups: int, slices: int) -> None:
    mine = [set(picks) for picks in product(range(groups), repeat=slices)]
    for joined in range(groups + 1):
        expected = share([len(groups_of) for groups_of in mine], joined)
        assert groups_joined_independent(groups, slices, joined) == expected
    for budget in (None, 1, groups, groups + 2):
        sequences = groups if budget is None else budget
        expected = mean(rounds_joined(groups_of, groups, sequences) for groups_of in mine)
        assert client_rounds_independent(groups, slices, budget) == expected


@pytest.mark.parametrize(("clients", "slices", "groups"), [(10, 5, 10), (4, 6, 8), (30, 3, 9)])
def test_the_formula_of_the_specification(clients: int, slices: int, groups: int) -> None:
    size = clients * slices // groups
    for joined in range(groups + 1):
        printed = Fraction(
            math.comb(groups, joined)
            * sum(
                (-1) ** j * math.comb(joined, j) * math.comb((joined - j) * size, slices)
                for j in range(joined + 1)
            ),
            math.comb(clients * slices, slices),
        )
        assert groups_joined_balanced(clients, slices, groups, joined) == printed
    assert sum(groups_joined_balanced(clients, slices, groups, k) for k in range(groups + 1)) == 1


@pytest.mark.parametrize(("clients", "slices", "groups"), [(10, 5, 10), (7, 3, 8)])
def test_balanced_rounds_agree_with_simulation(clients: int, slices: int, groups: int) -> None:
    rng = np.random.default_rng(5)
    of_slice = np.arange(clients * slices) * groups // (clients * slices)
    first = [rng.permutation(groups)[rng.permutation(of_slice)[:slices]].min() for _ in range(20_000)]
    rounds = groups * (groups - np.array(first))
    error = rounds.std() / math.sqrt(len(rounds))
    assert abs(rounds.mean() - float(client_rounds_balanced(clients, slices, groups))) < 4.5 * error


def test_more_slices_mean_more_rounds_between_the_papers_limits() -> None:
    independent = [client_rounds_independent(10, slices) for slices in range(1, 60)]
    balanced = [client_rounds_balanced(10, slices, 10) for slices in range(1, 60)]
    assert independent[0] == balanced[0] == 55
    for rounds in (independent, balanced):
        assert all(fewer <= more for fewer, more in pairwise(rounds))
        assert 99 < rounds[-1] < 100
    assert all(dealt >= picked for dealt, picked in zip(balanced, independent, strict=True))


def test_the_mean_number_of_groups_joined() -> None:
    joined = sum(k * groups_joined_independent(10, 4, k) for k in range(11))
    assert joined == 10 * (1 - Fraction(9, 10) ** 4)


def test_many_clients_make_balanced_slices_nearly_independent() -> None:
    apart = client_rounds_balanced(5000, 3, 10) - client_rounds_independent(10, 3)
    assert 0 < apart < Fraction(1, 100)


def test_passes_are_those_of_the_phases() -> None:
    for groups in (1, 4, 9):
        sequence = sum(Fraction(phase, groups) for phase in range(1, groups + 1))
        assert passes(groups, 3) == 3 * sequence


def test_matched_budgets_solve_their_equations() -> None:
    for rounds, groups in ((10, 10), (7, 4), (1, 1)):
        assert matched_budget(rounds, groups) * Fraction(groups + 1, 2) == rounds * groups
        assert matched_budget_passes(rounds, groups) * Fraction(groups + 1, 2) == rounds


@pytest.mark.parametrize("groups", [1, 2, 5, 10])
@pytest.mark.parametrize("window", [None, "own", 1, 2, 4, 10, 99])
def test_passes_with_a_window_are_those_of_the_phases_and_of_the_plan(groups: int, window: Window) -> None:
    for budget in range(1, groups + 1):
        most = groups if window is None else 1 if window == "own" else window
        phases = Fraction(sum(min(i, most) for i in range(1, groups + 1)), groups)
        assert passes(groups, budget, window) == budget * phases
        planned = make("rotations", groups, budget, window=window).passes
        assert planned == pytest.approx(float(passes(groups, budget, window)), rel=1e-12)
    assert matched_budget_passes(10, groups, window) * passes(groups, 1, window) == 10


def test_what_a_window_saves_at_ten_groups() -> None:
    assert [passes(10, 10, window) for window in (1, 2, 4, 10, None, "own")] == [10, 19, 34, 55, 55, 10]
    assert matched_budget_passes(10, 10, 1) == 10


@pytest.mark.parametrize("window", [0, -1, 1.5, "all"])
def test_other_windows_are_refused(window: Any) -> None:
    with pytest.raises(InputError, match="window"):
        passes(10, 10, window)


def test_with_the_window_own_a_client_trains_on_its_own_groups_alone() -> None:
    joined = sum(k * groups_joined_balanced(4, 3, 5, k) for k in range(6))
    assert client_rounds_balanced(4, 3, 5, 2, "own") == 2 * joined
    assert client_rounds_balanced(4, 3, 5, 2, 2) == client_rounds_balanced(4, 3, 5, 2)
    independent = sum(k * groups_joined_independent(5, 3, k) for k in range(6))
    assert client_rounds_independent(5, 3, None, "own") == 5 * independent
