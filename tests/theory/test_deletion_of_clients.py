"""Requests of whole clients, against every balanced grouping and every order of leaving."""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from fedsgt.theory import deletion_rate, deletion_rate_clients, fedcio_deletion_rate_clients, survival_clients

SMALL = [
    (3, 2, 3, 3),
    (3, 2, 3, 2),
    (3, 2, 4, 3),
    (2, 3, 4, 4),
    (4, 1, 3, 2),
    (4, 1, 4, 4),
    (1, 4, 3, 3),
    (5, 1, 2, 1),
]


def balanced_groupings(slices: int, groups: int) -> Iterator[tuple[int, ...]]:
    """Each map from slices to groups whose group sizes differ by at most one."""
    for grouping in product(range(groups), repeat=slices):
        sizes = [grouping.count(group) for group in range(groups)]
        if max(sizes) - min(sizes) <= 1:
            yield grouping


def failing_requests(clients: int, slices: int, groups: int, roots: int) -> list[int]:
    """The failing request of each grouping and each order; slice i belongs to client i mod clients."""
    return [
        1
        + max(
            min(order.index(i % clients) for i, group in enumerate(grouping) if group == root)
            for root in range(roots)
        )
        for grouping in balanced_groupings(clients * slices, groups)
        for order in permutations(range(clients))
    ]


@pytest.mark.parametrize(("clients", "slices", "groups", "roots"), SMALL)
def test_clients_equal_enumeration(clients: int, slices: int, groups: int, roots: int) -> None:
    failing = failing_requests(clients, slices, groups, roots)
    assert deletion_rate_clients(clients, slices, groups, roots) == Fraction(sum(failing), len(failing))
    for requests in range(clients + 1):
        alive = Fraction(sum(request > requests for request in failing), len(failing))
        assert survival_clients(clients, slices, groups, roots, requests) == alive


@pytest.mark.parametrize(("clients", "clusters"), [(4, 2), (5, 2), (5, 3), (6, 4), (4, 4), (3, 1)])
def test_fedcio_equals_enumeration_of_orders(clients: int, clusters: int) -> None:
    of_client = [client % clusters for client in range(clients)]
    failing = [
        1 + max(min(order.index(i) for i in range(clients) if of_client[i] == c) for c in range(clusters))
        for order in permutations(range(clients))
    ]
    assert fedcio_deletion_rate_clients(clients, clusters) == Fraction(sum(failing), len(failing))


@pytest.mark.parametrize(
    ("clients", "slices", "groups", "roots"), [(10, 5, 10, 10), (7, 3, 5, 4), (13, 2, 8, 3)]
)
def test_clients_agree_with_simulation(clients: int, slices: int, groups: int, roots: int) -> None:
    rng = np.random.default_rng(3)
    owners = np.repeat(np.arange(clients), slices)
    failing = []
    for _ in range(6_000):
        # Leaving in the order 0, 1, ... is as random as any: the slices are dealt at random.
        dealt = np.array_split(rng.permutation(owners), groups)
        failing.append(1 + max(dealt[root].min() for root in rng.choice(groups, roots, replace=False)))
    error = np.std(failing) / math.sqrt(len(failing))
    assert abs(np.mean(failing) - float(deletion_rate_clients(clients, slices, groups, roots))) < 4.5 * error


def test_more_slices_cost_availability() -> None:
    rates = [deletion_rate_clients(10, slices, 10, 10) for slices in range(1, 13)]
    assert all(fewer > more for fewer, more in pairwise(rates))


def test_many_single_slice_clients_come_near_the_one_group_rate() -> None:
    # Without repeats the failing request comes a little sooner than for independent uniform requests.
    rates = [deletion_rate_clients(clients, 1, 5, 5) for clients in (20, 100, 500)]
    assert rates == sorted(rates)
    assert deletion_rate(5, 5) * Fraction(97, 100) < rates[-1] < deletion_rate(5, 5)


def test_survival_falls_and_ends_at_nothing() -> None:
    curve = [survival_clients(9, 4, 7, 5, requests) for requests in range(10)]
    assert curve[0] == 1
    assert curve[-1] == 0
    assert all(0 <= later <= earlier for earlier, later in pairwise(curve))
