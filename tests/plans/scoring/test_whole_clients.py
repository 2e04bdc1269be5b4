"""How many clients can leave whole: against every order of leaving, and the table of the specification."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsgt import grouping, theory
from fedsgt.plans import make
from fedsgt.plans.scoring import whole_clients as module
from fedsgt.plans.scoring.whole_clients import clients_withstood, whole_clients_words

Counts = NDArray[np.int64]


def failing_client(roots: list[int], counts: Counts, order: tuple[int, ...]) -> int:
    """Return the number of the client, in this order of leaving, that hits the last root."""
    left = set(roots)
    for number, client in enumerate(order, start=1):
        left -= set(np.flatnonzero(counts[client]).tolist())
        if not left:
            return number
    raise AssertionError("some root is never hit")


def random_counts(seed: int, clients: int = 5, groups: int = 4) -> Counts:
    return np.random.default_rng(seed).integers(0, 2, (clients, groups)) + np.eye(clients, groups, dtype=int)


def chance(order: tuple[int, ...], prior: list[float]) -> float:
    """Return the chance that clients leave in this order."""
    left, found = 1.0, 1.0
    for client in order:
        found, left = found * prior[client] / left, left - prior[client]
    return found


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_mean_over_all_orders(seed: int) -> None:
    counts, roots = random_counts(seed), [0, 1, 3]
    failing = [failing_client(roots, counts, order) for order in permutations(range(5))]
    found = clients_withstood(roots, counts)
    assert found.exact
    assert found == pytest.approx(float(Fraction(sum(failing), len(failing))), abs=1e-12)


def test_an_uneven_prior_is_simulated() -> None:
    counts, roots, prior = random_counts(1), [0, 1, 2, 3], [0.4, 0.3, 0.15, 0.1, 0.05]
    exact = sum(
        chance(order, prior) * failing_client(roots, counts, order) for order in permutations(range(5))
    )
    found = clients_withstood(roots, counts, np.array(prior))
    assert not found.exact
    assert abs(found - exact) < 4.5 * found.stderr


def test_many_roots_are_simulated_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, roots = random_counts(2), [0, 1, 2, 3]
    exact = clients_withstood(roots, counts)
    monkeypatch.setattr(module, "LARGEST_EXACT", 3)
    found = clients_withstood(roots, counts)
    assert not found.exact
    assert abs(found - exact) < 4.5 * found.stderr


def test_twenty_roots_and_many_clients_are_still_exact() -> None:
    """One client a group would take the sum of alternating terms apart if anything were rounded."""
    counts = np.tile(np.eye(20, dtype=np.int64), (10, 1))
    assert clients_withstood(range(20), counts) == pytest.approx(
        float(theory.fedcio_deletion_rate_clients(200, 20)), rel=1e-12
    )


def test_a_root_that_nobody_who_leaves_is_in_lives_for_ever() -> None:
    counts = np.eye(3, dtype=np.int64)
    assert clients_withstood([0, 1], counts, np.array([0.5, 0.0, 0.5])) == math.inf
    assert float(clients_withstood([0, 2], counts, np.array([0.5, 0.0, 0.5]))) == 2


def test_without_roots_nothing_is_withstood() -> None:
    assert float(clients_withstood([], np.eye(3, dtype=np.int64))) == 0


# Settings of the table "Whole clients" of the specification: kind of plan, passes, shards and budget it is
# made with; groups; slices; limits; then passes, deletion rate of slices, and of 10 and of 50 whole clients.
TABLE = [
    ("FedCIO of 5", ("rotations", None, 5, 1), (5, 1, None), (1, 11.4, 6.9, 10.1)),
    ("FedCIO of 10", ("rotations", None, 10, 1), (10, 1, None), (1, 29.3, 10.0, 21.8)),
    ("the paper", ("rotations", None, 1, None), (10, 5, None), (55, 29.3, 4.8, 5.9)),
    ("limits 2", ("rotations", None, 1, None), (10, 5, 2), (55, 29.3, 8.3, 13.3)),
    ("limits 1", ("rotations", None, 1, None), (10, 5, 1), (55, 29.3, 10.0, 21.8)),
    ("tree, limits 1", ("tree", 10, 1, None), (10, 5, 1), (10, 29.3, 10.0, 21.8)),
]


@pytest.mark.parametrize(
    ("planned", "grouped", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_table_of_the_specification(
    planned: tuple[str, float | None, int, int | None],
    grouped: tuple[int, int, int | None],
    expected: tuple[float, float, float, float],
) -> None:
    """Exact for each grouping; random groupings differ, so the table has the mean over them."""
    (kind, passes, shards, budget), (groups, slices, limits) = planned, grouped
    plan = make(kind, groups, budget, passes, shards=shards)
    assert plan.passes <= expected[0]
    assert plan.deletion_rate() == pytest.approx(expected[1], abs=0.05)
    for clients, whole in zip((10, 50), expected[2:], strict=True):
        found = [
            clients_withstood(
                plan.roots,
                grouping.make("random", [slices] * clients, groups, limits=limits, seed=seed).counts(),
            )
            for seed in range(20)
        ]
        error = np.std(found) / math.sqrt(len(found))
        assert abs(np.mean(found) - whole) < 0.06 + 4 * error


def test_it_agrees_with_the_theory_of_random_groups() -> None:
    found = [
        clients_withstood(range(6), grouping.make("random", [2] * 6, 6, seed=seed).counts())
        for seed in range(200)
    ]
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - float(theory.deletion_rate_clients(6, 2, 6, 6))) < 4.5 * error


def test_words() -> None:
    assert whole_clients_words(8.26, 10) == "no module is live after about 8.3 of 10 clients left whole"
    assert whole_clients_words(math.inf, 4) == "a module stays live, whichever clients leave whole"
