"""Rounds and downloads of each client under a plan, against a literal reading of the groupings."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.plans import Plan, rotations
from fedsgt.plans.cyclic import iterative_rotations
from fedsgt.plans.greedy import greedy
from fedsgt.plans.tree.search import tree
from fedsgt.theory import client_rounds_balanced

PLANS = [
    rotations(5),
    rotations(5, 2),
    iterative_rotations(5, 9),
    greedy(5, 4),
    tree(5, effort=0.02),
    Plan.of("stubs", 5, [(3,), (0, 4), (0, 2, 1)]),
]
BALANCED = [(3, 2, 3), (2, 3, 3), (4, 1, 4), (2, 2, 4)]


def random_counts(seed: int) -> NDArray[np.int64]:
    """Seven clients; some in no group at all, most in a few."""
    return np.random.default_rng(seed).poisson(0.6, size=(7, 5)).astype(np.int64)


def balanced_counts(clients: int, slices: int, groups: int) -> Iterator[NDArray[np.int64]]:
    """Each map from slices to groups of equal size; slice i belongs to client i mod clients."""
    total = clients * slices
    for grouping in product(range(groups), repeat=total):
        if all(grouping.count(group) == total // groups for group in range(groups)):
            counts = np.zeros((clients, groups), dtype=np.int64)
            np.add.at(counts, (np.arange(total) % clients, np.array(grouping)), 1)
            yield counts


def trained_by(plan: Plan, groups_held: set[int]) -> list[tuple[int, ...]]:
    return [module.prefix for module in plan.modules if groups_held & set(module.prefix)]


def groups_of(counts: NDArray[np.int64], client: int) -> set[int]:
    return set(np.flatnonzero(counts[client]).tolist())


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
@pytest.mark.parametrize("seed", range(3))
def test_a_client_trains_every_module_with_a_group_of_its_own(plan: Plan, seed: int) -> None:
    counts = random_counts(seed)
    part, rounds = plan.takes_part(counts), plan.client_rounds(counts)
    for client in range(len(counts)):
        expected = trained_by(plan, groups_of(counts, client))
        assert [
            module.prefix for module, joins in zip(plan.modules, part[client], strict=True) if joins
        ] == expected
        assert rounds[client] == len(expected)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
@pytest.mark.parametrize("seed", range(3))
def test_a_client_fetches_each_ancestor_of_what_it_trains_once(plan: Plan, seed: int) -> None:
    counts = random_counts(seed)
    downloads = plan.client_downloads(counts)
    for client in range(len(counts)):
        mine = trained_by(plan, groups_of(counts, client))
        ancestors = {prefix[:depth] for prefix in mine for depth in range(1, len(prefix))}
        assert downloads[client] == len(ancestors)


def test_a_client_without_slices_does_nothing() -> None:
    counts = np.array([[0, 0, 0], [1, 0, 0]])
    assert rotations(3).client_rounds(counts)[0] == 0
    assert rotations(3).client_downloads(counts)[0] == 0


@pytest.mark.parametrize(("clients", "slices", "groups"), BALANCED)
def test_mean_rounds_over_all_balanced_groupings_are_those_of_the_theory(
    clients: int, slices: int, groups: int
) -> None:
    all_counts = list(balanced_counts(clients, slices, groups))
    for budget in (1, groups - 1, groups):
        plan = rotations(groups, budget)
        rounds = sum(int(plan.client_rounds(counts).sum()) for counts in all_counts)
        mean = Fraction(rounds, clients * len(all_counts))
        assert mean == client_rounds_balanced(clients, slices, groups, budget)


def test_mean_rounds_over_random_balanced_groupings_come_near_the_theory() -> None:
    rng, plan, owner = np.random.default_rng(7), rotations(10), np.repeat(np.arange(10), 5)
    means = []
    for _ in range(400):
        counts = np.zeros((10, 10), dtype=np.int64)
        np.add.at(counts, (owner, rng.permutation(np.arange(50) % 10)), 1)
        means.append(plan.client_rounds(counts).mean())
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - float(client_rounds_balanced(10, 5, 10))) < 5 * error


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
def test_with_the_window_own_a_client_trains_the_modules_that_its_groups_end(plan: Plan) -> None:
    counts, own = random_counts(0), plan.with_window("own")
    for client, rounds in enumerate(own.client_rounds(counts)):
        mine = groups_of(counts, client)
        assert rounds == sum(module.group in mine for module in plan.modules)
    assert (plan.with_window(1).takes_part(counts) == plan.takes_part(counts)).all()


@pytest.mark.parametrize(("clients", "slices", "groups"), BALANCED)
def test_so_it_is_in_the_theory(clients: int, slices: int, groups: int) -> None:
    all_counts, plan = list(balanced_counts(clients, slices, groups)), rotations(groups).with_window("own")
    rounds = sum(int(plan.client_rounds(counts).sum()) for counts in all_counts)
    mean = Fraction(rounds, clients * len(all_counts))
    assert mean == client_rounds_balanced(clients, slices, groups, None, "own")


@pytest.mark.parametrize("shape", [(3, 4), (5,), (2, 6)])
def test_counts_of_another_number_of_groups_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"^counts: shape .* clients x 5 groups$"):
        rotations(5).client_rounds(np.ones(shape, dtype=np.int64))
