"""Deletion rates and survival under one-group requests, against independent exact and random computations."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from fedsgt.theory import deletion as deletion_module
from fedsgt.theory import (
    deletion_rate,
    deletion_rate_weighted,
    fedcio_deletion_rate,
    requests_survived,
    survival,
    survival_weighted,
)

PRIORS = [
    [Fraction(1, 4)] * 4,
    [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)],
    [Fraction(k, 21) for k in range(1, 7)],
    [Fraction(5, 11), Fraction(0), Fraction(3, 11), Fraction(2, 11), Fraction(1, 11)],
]


def rate_by_first_step(prior: Sequence[Fraction], roots: Sequence[int]) -> Fraction:
    """E[T] from the chain of unhit roots: wait for one of them to be hit, then go on without it."""

    @cache
    def rate(unhit: frozenset[int]) -> Fraction:
        if not unhit:
            return Fraction(0)
        after = sum((prior[root] * rate(unhit - {root}) for root in unhit), Fraction(0))
        return (1 + after) / sum(prior[root] for root in unhit)

    return rate(frozenset(roots))


def survival_by_streams(prior: Sequence[Fraction], roots: Sequence[int], requests: int) -> Fraction:
    streams = product(range(len(prior)), repeat=requests)
    return sum(
        (math.prod((prior[g] for g in s), start=Fraction(1)) for s in streams if set(roots) - set(s)),
        Fraction(0),
    )


@pytest.mark.parametrize(("groups", "budget"), [(1, 1), (4, 1), (4, 3), (6, 6), (5, 9)])
def test_uniform_rate_equals_first_step_analysis(groups: int, budget: int) -> None:
    roots = range(min(groups, budget))
    expected = rate_by_first_step([Fraction(1, groups)] * groups, roots)
    assert deletion_rate(groups, budget) == expected
    assert deletion_rate_weighted([Fraction(1, groups)] * groups, roots) == expected
    assert requests_survived(groups, budget) == expected - 1


def test_fedcio_is_the_full_coupon_collector() -> None:
    for clusters in range(1, 8):
        assert fedcio_deletion_rate(clusters) == deletion_rate(clusters, clusters)


@pytest.mark.parametrize("prior", PRIORS)
def test_weighted_rate_equals_first_step_analysis(prior: list[Fraction]) -> None:
    reachable = [group for group, share in enumerate(prior) if share]
    for count in range(1, len(reachable) + 1):
        roots = reachable[-count:]
        assert deletion_rate_weighted(prior, roots) == rate_by_first_step(prior, roots)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("requests", [0, 1, 2, 4])
def test_weighted_survival_equals_enumeration(prior: list[Fraction], requests: int) -> None:
    for roots in ([0], [0, 1], [2, 0], list(range(len(prior)))):
        assert survival_weighted(prior, roots, requests) == survival_by_streams(prior, roots, requests)


@pytest.mark.parametrize(("groups", "roots"), [(1, 1), (3, 2), (4, 4), (5, 1)])
@pytest.mark.parametrize("requests", [0, 1, 3, 5])
def test_uniform_survival_equals_enumeration(groups: int, roots: int, requests: int) -> None:
    prior = [Fraction(1, groups)] * groups
    assert survival(groups, roots, requests) == survival_by_streams(prior, range(roots), requests)


def test_rate_is_the_sum_of_the_survival_curve() -> None:
    alive = sum(float(survival(8, 5, requests)) for requests in range(400))
    assert alive == pytest.approx(float(deletion_rate(8, 5)), abs=1e-9)


def test_a_head_that_is_never_hit_lives_for_ever() -> None:
    prior = [Fraction(1, 2), Fraction(1, 2), Fraction(0)]
    assert deletion_rate_weighted(prior, [0, 2]) == math.inf
    assert survival_weighted(prior, [0, 2], 50) == 1
    assert deletion_rate_weighted(prior, [0, 1]) == 3


def test_float_priors_are_normalised() -> None:
    assert deletion_rate_weighted([0.1] * 10, range(10)) == deletion_rate(10, 10)
    assert survival_weighted(np.full(7, 1 / 7).tolist(), range(3), 9) == survival(7, 3, 9)
    assert deletion_rate_weighted([1, 0.0], [0]) == 1


def test_repeated_heads_count_once() -> None:
    assert deletion_rate_weighted(PRIORS[1], [2, 0, 2, 0]) == deletion_rate_weighted(PRIORS[1], [0, 2])


def test_many_equal_priors_stay_exact() -> None:
    prior = [Fraction(1, 40)] * 20 + [Fraction(1, 10)] * 5
    roots = range(25)
    alive = sum(float(survival_weighted(prior, roots, requests)) for requests in range(1200))
    assert float(deletion_rate_weighted(prior, roots)) == pytest.approx(alive, rel=1e-9)


def test_fixed_point_sum_agrees_with_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    prior = [Fraction(k * k + 1, 294) for k in range(1, 9)] + [Fraction(82, 294)]
    exact = deletion_rate_weighted(prior, range(9))
    monkeypatch.setattr(deletion_module, "_MOST_EXACT_TERMS", 0)
    near = deletion_rate_weighted(prior, range(9))
    assert exact == rate_by_first_step(prior, range(9))
    assert 0 < abs(Fraction(exact) - Fraction(near)) < Fraction(1, 2**200)


def test_many_different_float_priors_agree_with_the_integral() -> None:
    # Requests as a Poisson stream of rate 1: the roots are then hit independently of one another.
    prior = np.random.default_rng(4).dirichlet(np.full(14, 4.0))
    value, _ = integrate.quad(lambda t: 1 - np.prod(1 - np.exp(-prior * t)), 0, 20 / prior.min(), limit=500)
    assert float(deletion_rate_weighted(prior.tolist(), range(14))) == pytest.approx(value, rel=1e-6)


def test_rate_and_survival_agree_with_simulation() -> None:
    rng = np.random.default_rng(11)
    streams = rng.integers(0, 10, size=(20_000, 300))
    first_hit = np.stack([np.argmax(streams == root, axis=1) + 1 for root in range(6)])
    failed = first_hit.max(axis=0)
    error = failed.std() / math.sqrt(len(failed))
    assert abs(failed.mean() - float(deletion_rate(10, 6))) < 4.5 * error
    for requests in (10, 15, 30):
        chance = float(survival(10, 6, requests))
        error = math.sqrt(chance * (1 - chance) / len(failed))
        assert abs((failed > requests).mean() - chance) < 4.5 * error


@settings(max_examples=60)
@given(groups=st.integers(1, 12), data=st.data(), requests=st.integers(0, 25))
def test_survival_is_a_falling_chance(groups: int, data: st.DataObject, requests: int) -> None:
    roots = data.draw(st.integers(1, groups))
    now = survival(groups, roots, requests)
    assert 0 <= survival(groups, roots, requests + 1) <= now <= 1
    if roots < groups:
        assert now <= survival(groups, roots + 1, requests)
    assert now == 1 or requests >= roots


@settings(max_examples=60)
@given(weights=st.lists(st.integers(1, 30), min_size=2, max_size=7))
def test_equal_chances_fail_soonest_when_every_group_is_a_head(weights: list[int]) -> None:
    prior = [Fraction(weight, sum(weights)) for weight in weights]
    rate = deletion_rate_weighted(prior, range(len(prior)))
    assert rate >= deletion_rate(len(prior), len(prior))
    assert (rate == deletion_rate(len(prior), len(prior))) == (len(set(weights)) == 1)
    assert rate >= deletion_rate_weighted(prior, range(len(prior) - 1))
