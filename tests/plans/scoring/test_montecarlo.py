"""Beyond twenty groups: estimates that say their error, near the closed forms, and the same at every call."""

import math

import numpy as np
import pytest

from fedsgt import theory
from fedsgt.plans import Estimate, Plan, rotations
from fedsgt.plans.scoring.montecarlo import depth_falls, independent_hits, simulate

MANY = rotations(24)
COUNTS = [1, 2, 5, 12, 40, 90]
FEW_VALUES = [1 / 48] * 12 + [3 / 48] * 12


def within(estimate: Estimate, expected: float, errors: float = 5) -> bool:
    return abs(estimate - expected) <= errors * estimate.stderr


def test_live_groups_are_within_their_error_of_the_closed_form() -> None:
    for count, found in zip(COUNTS, MANY.expected_live(COUNTS), strict=True):
        assert 0 < found.stderr < 0.1
        assert within(found, float(theory.expected_live(24, count)))


def test_fewer_rotations_are_within_their_error_too() -> None:
    plan = rotations(24, 5)
    offsets = [-root % 24 for root in plan.roots]
    for count, found in zip(COUNTS, plan.expected_live(COUNTS), strict=True):
        assert within(found, float(theory.expected_live_offsets(24, offsets, count)))


def test_weighted_survival_is_within_its_error_of_the_closed_form() -> None:
    counts = [20, 60, 90, 150]
    for count, found in zip(counts, MANY.survival(counts, FEW_VALUES), strict=True):
        assert found.stderr > 0
        assert within(found, float(theory.survival_weighted(FEW_VALUES, range(24), count)))


def test_uniform_survival_needs_no_simulation() -> None:
    assert MANY.survival(90).exact
    assert MANY.survival(90) == float(theory.survival(24, 24, 90))


def test_an_estimate_is_printed_with_its_error() -> None:
    assert "±" in str(MANY.expected_live(12))
    assert "±" in repr(MANY.expected_live(12))


def test_what_was_never_seen_to_vary_is_still_not_certain() -> None:
    (after_one,) = MANY.expected_live([1])
    assert after_one == 23.0
    assert after_one.stderr > 0


def test_before_any_request_all_is_certain() -> None:
    assert MANY.expected_live(0) == 24.0
    assert MANY.expected_live(0).exact


def test_scores_do_not_change_from_call_to_call() -> None:
    first = MANY.expected_live(COUNTS, FEW_VALUES)
    np.random.default_rng().random(10)
    again = rotations(24).expected_live(COUNTS, FEW_VALUES)
    assert again == first
    assert [value.stderr for value in again] == [value.stderr for value in first]


def test_simulation_agrees_with_the_exact_score() -> None:
    plan = Plan.of("stubs", 5, [(2,), (0, 3, 1), (0, 2, 1, 4, 3), (4, 1)])
    prior = np.array([0.3, 0.1, 0.25, 0.15, 0.2])
    counts = list(range(12))
    curves = simulate(plan, counts, independent_hits(5, 11, prior))
    live, alive = plan.expected_live(counts, prior), plan.survival(counts, prior)
    for found, exact in ((curves.live, live), (curves.alive, alive), ([curves.rate], [sum(alive)])):
        assert all(within(one, other) for one, other in zip(found, exact, strict=True))


def test_hits_name_the_first_request_of_each_group() -> None:
    hits = independent_hits(3, 4, np.array([0.0, 0.5, 0.5]))(np.random.default_rng(1), 200)
    assert (hits[:, 0] == 5).all()
    assert (hits[:, 1:].min(axis=1) == 1).all()
    assert set(hits[:, 1:].max(axis=1)) == {2, 3, 4, 5}


def test_a_depth_falls_with_its_last_module() -> None:
    plan = Plan.of("stubs", 3, [(0, 1), (2, 1), (2, 0)])
    falls = depth_falls(plan, np.array([[4, 2, 3], [1, 9, 9]]))
    assert falls.tolist() == [[4, 3], [9, 9]]


def test_errors_shrink_to_what_the_trials_allow() -> None:
    found = MANY.survival(90, FEW_VALUES)
    assert found.stderr == pytest.approx(math.sqrt(found * (1 - found) / 20_000), rel=1e-6)
