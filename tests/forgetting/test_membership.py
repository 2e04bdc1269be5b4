"""Scores, AUC and intervals of membership inference, against brute force, closed forms and simulation."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedsgt.forgetting.membership import (
    Floats,
    aligned,
    auc,
    confidences,
    drop,
    halves,
    lira_scores,
    loss_scores,
    match,
    roc,
    true_positives,
)

# Few different values, so that ties are common; whole, so that monotone maps keep them apart.
SCORES = st.integers(1, 12).flatmap(lambda size: arrays(np.float64, size, elements=st.integers(-4, 4)))


def brute_force(members: Floats, others: Floats) -> float:
    return float(np.mean([(a > b) + 0.5 * (a == b) for a in members for b in others]))


def of(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


@given(SCORES, SCORES)
def test_auc_is_the_share_of_pairs_in_order(members: Floats, others: Floats) -> None:
    found = auc(members, others)
    assert found.value == pytest.approx(brute_force(members, others))
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high, "no interval claims to know it exactly"


@given(SCORES, SCORES)
def test_a_monotone_map_changes_nothing(members: Floats, others: Floats) -> None:
    assert auc(np.exp(members), np.exp(others)) == auc(members, others)


@given(SCORES, SCORES)
def test_turned_round_it_is_the_complement(members: Floats, others: Floats) -> None:
    found, turned = auc(members, others), auc(others, members)
    assert turned.method == found.method
    assert (turned.value, turned.low, turned.high) == pytest.approx(
        (1 - found.value, 1 - found.high, 1 - found.low)
    )


def test_delong_by_hand() -> None:
    """Members 2, 4, 5 against 1, 3: components 1/2, 1, 1 and 1, 2/3; variances 1/12 and 1/18."""
    found = auc(of(2, 4, 5), of(1, 3))
    assert found.method == "DeLong"
    assert found.value == pytest.approx(5 / 6)
    half = 1.959963984540054 * sqrt(1 / 12 / 3 + 1 / 18 / 2)
    assert found.low == pytest.approx(5 / 6 - half)
    assert found.high == 1.0


def test_where_delong_has_no_width() -> None:
    tied = auc(of(1, 1, 1), of(1, 1))
    assert (tied.method, tied.value) == ("Hanley-McNeil", 0.5)
    # (1/4 + 2 (1/3 - 1/4) + 1 (1/3 - 1/4)) / 6
    assert tied.high - 0.5 == pytest.approx(min(0.5, 1.959963984540054 * sqrt(0.5 / 6)))
    apart = auc(of(3, 4, 5), of(1, 2))
    assert (apart.method, apart.value, apart.high) == ("exact", 1.0, 1.0)
    assert apart.low == pytest.approx(sqrt(0.025)), "two pairs in order, of independent records"
    assert auc(of(1), of(2)).high == pytest.approx(0.975)


@pytest.mark.parametrize("scores", [(of(), of(1)), (of(1), of()), (of(np.nan), of(1)), (of(1), of(np.inf))])
def test_scores_that_say_nothing_are_refused(scores: tuple[Floats, Floats]) -> None:
    with pytest.raises(ValueError, match="finite"):
        auc(*scores)


@pytest.mark.parametrize(("shift", "counts"), [(0.0, (30, 60)), (0.8, (40, 40)), (1.2, (80, 25))])
def test_the_interval_covers_in_95_of_100_cases(shift: float, counts: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    truth = 0.5 * (1 + erf(shift / 2))  # of two unit normals: Phi(shift / sqrt 2)
    draws = [
        auc(rng.normal(shift, 1, counts[0]), rng.normal(0, 1, counts[1])).contains(truth) for _ in range(1000)
    ]
    assert 0.92 <= np.mean(draws) <= 0.97


def test_the_drop_covers_too_and_is_narrower_than_either() -> None:
    """Records that are unlike move both systems, and memory only the first."""
    rng = np.random.default_rng(8)
    truth = 0.5 * (erf(1.3 / sqrt(4 * 1.09)) - erf(0.5 / sqrt(4 * 1.09)))
    covered, narrower = [], []
    for _ in range(400):
        members, others = rng.normal(0.5, 1, 40), rng.normal(0, 1, 40)
        before, after = (
            (members + extra + 0.3 * rng.normal(size=40), others + 0.3 * rng.normal(size=40))
            for extra in (0.8, 0.0)
        )
        found = drop(before, after)
        assert found.value == pytest.approx(auc(*before).value - auc(*after).value)
        covered.append(found.contains(truth))
        narrower.append(found.high - found.low < auc(*after).high - auc(*after).low)
    assert 0.92 <= np.mean(covered) <= 0.98
    assert np.mean(narrower) > 0.9


def test_nothing_dropped_between_equal_systems() -> None:
    scores = of(1, 2, 5), of(0, 3)
    assert drop(scores, scores).value == 0
    assert drop((of(1, 2), of(3, 4)), (of(3, 4), of(1, 2))).value == -1


def test_true_positives_at_few_false_ones() -> None:
    others = np.arange(100.0)
    members = of(50, 94.5, 97, 98.5, 99, 200)
    assert true_positives(members, others, 1) == pytest.approx(3 / 6), "above 98: one of the others is"
    assert true_positives(members, others, 5) == pytest.approx(5 / 6)
    assert true_positives(members, others[:99], 1) is None
    assert true_positives(members, others[:19], 5) is None
    assert true_positives(np.zeros(5), np.zeros(40), 5) == 0, "ties are not found"


@given(SCORES, SCORES)
def test_the_area_under_the_curve_is_the_auc(members: Floats, others: Floats) -> None:
    false, true = roc(members, others)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert np.trapezoid(true, false) == pytest.approx(auc(members, others).value)


def test_confidence_is_the_logit_and_keeps_sure_answers_apart() -> None:
    probabilities = np.array([[0.2, 0.7, 0.1], [1.0, 3e-20, 1e-30], [1.0, 1e-25, 1e-30], [0.0, 1.0, 0.0]])
    found = confidences(probabilities.astype(np.float32), [1, 0, 0, 0])
    assert found[0] == pytest.approx(np.log(0.7 / 0.3), rel=1e-6)
    assert found[1] < found[2]
    assert np.isfinite(found).all()
    assert confidences(np.stack([probabilities] * 2), [1, 0, 0, 0]).shape == (2, 4)


def test_the_loss_score_is_the_log_of_the_probability() -> None:
    shares = of(1e-6, 0.3, 0.999)
    assert loss_scores(np.log(shares / (1 - shares))) == pytest.approx(np.log(shares))
    assert np.unique(loss_scores(of(38, 39, 40))).size == 3


@pytest.mark.parametrize("shadows", [16, 64])
def test_lira_nears_the_best_there_is_where_a_loss_threshold_fails(shadows: int) -> None:
    """Learning a record raises its confidence by 1, with noise of 0.5; difficulty moves it far more."""
    rng = np.random.default_rng(9)
    difficulty = rng.normal(0, 5, 3000)
    inside = halves(3000, shadows, seed=1)
    known = difficulty + inside + 0.5 * rng.normal(size=(shadows, 3000))
    learnt = np.arange(3000) < 1500
    observed = difficulty + learnt + 0.5 * rng.normal(size=3000)
    scores = lira_scores(observed, known, inside)
    best = 0.5 * (1 + erf(1 / 0.5 / 2))
    assert auc(scores[learnt], scores[~learnt]).value == pytest.approx(best, abs=0.03)
    assert auc(observed[learnt], observed[~learnt]).value < 0.6
    forgotten = lira_scores(observed - learnt, known, inside)
    assert auc(forgotten[learnt], forgotten[~learnt]).contains(0.5)


def test_lira_is_the_ratio_of_two_normal_densities() -> None:
    """Variances over all records: (2 + 8) / 2 inside, (2 + 2) / 2 outside."""
    known = np.array([[1.0, 5.0], [3.0, 9.0], [0.0, 1.0], [2.0, 3.0]])
    inside = np.array([[True, True], [True, True], [False, False], [False, False]])
    ratio = lira_scores(of(4, 2), known, inside)
    by_hand = [
        -0.5 * (4 / 5 + np.log(5)) + 0.5 * (9 / 2 + np.log(2)),
        -0.5 * (25 / 5 + np.log(5)) + 0.5 * np.log(2),
    ]
    assert ratio == pytest.approx(by_hand)
    assert np.isfinite(lira_scores(of(1), np.ones((4, 1)), inside[:, :1])).all(), "even without any spread"


def test_aligned_confidences_are_like_the_shadows() -> None:
    rng = np.random.default_rng(3)
    known = rng.normal(2, 3, (6, 50))
    found = aligned(100 + 40 * known[0], known)
    assert found.mean() == pytest.approx(known.mean())
    assert found.std() == pytest.approx(known.std(axis=1).mean())
    assert np.array_equal(np.argsort(found), np.argsort(known[0]))


@given(st.integers(1, 40), st.integers(2, 8), st.integers(0, 9))
def test_every_record_is_inside_half_of_the_shadows(records: int, pairs: int, seed: int) -> None:
    inside = halves(records, 2 * pairs, seed)
    assert (inside.sum(axis=0) == pairs).all()
    assert (abs(2 * inside.sum(axis=1) - records) <= 1).all()
    assert np.array_equal(inside, halves(records, 2 * pairs, seed))


LABELS = st.lists(st.integers(0, 3), max_size=20)


@given(LABELS, LABELS, st.integers(0, 9))
def test_others_are_matched_by_label(members: list[int], others: list[int], seed: int) -> None:
    rows, columns = match(members, others, seed)
    wanted = sum(min(members.count(label), others.count(label)) for label in set(members))
    assert len(rows) == len(set(rows)) == wanted == columns.shape[1]
    assert len(set(columns.ravel())) == columns.size, "each once"
    for row in columns:
        assert [others[other] for other in row] == [members[member] for member in rows]


def test_as_many_others_as_there_can_be_for_every_member() -> None:
    assert match([0, 0, 1], [0] * 7 + [1] * 5, seed=0)[1].shape == (3, 3)
    assert match([0, 0, 1], [0, 1, 1], seed=0)[0].size == 2
    assert match([0], [1], seed=0)[0].size == 0
    draws = {tuple(match([0] * 3, [0] * 50, seed)[1].ravel()[:3]) for seed in range(5)}
    assert len(draws) == 5
