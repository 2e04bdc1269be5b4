"""Heads solved from statistics, against scikit-learn and against leaving one record out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

from fedsgt.errors import InputError
from fedsgt.stack.ridge import RIDGES, SHARPNESS, solve
from fedsgt.stack.statistics import Statistic


def digits() -> tuple[np.ndarray, np.ndarray]:
    features, labels = load_digits(return_X_y=True)
    return (features / 8 - 1).astype(np.float32), labels


def targets(labels: np.ndarray) -> np.ndarray:
    """Return a column for each label, whose entries count more for a rare label."""
    counts = np.bincount(labels, minlength=10)
    scales: np.ndarray = np.sqrt(len(labels) / 10 / np.maximum(counts, 1))
    return np.asarray(np.eye(10)[labels] * scales)


def statistic(features: np.ndarray, labels: np.ndarray, bits: int = 16) -> Statistic:
    return Statistic.of(features, labels.tolist(), 10, bits)


def test_it_is_ridge_regression() -> None:
    features, labels = digits()
    ones = np.hstack([features.astype(float), np.ones((len(features), 1))])
    peer = Ridge(alpha=3.0, fit_intercept=False, solver="cholesky").fit(ones, targets(labels))
    # Digits are multiples of an eighth, which quantisation keeps as they are.
    assert np.abs(solve(statistic(features, labels), 3.0).weights - peer.coef_.T).max() < 1e-10


def test_rare_labels_are_not_forgotten() -> None:
    """Few records of five labels: a plain ridge regression gives most of theirs to the frequent ones."""
    features, labels = digits()
    kept = np.array([label < 5 or number % 12 == 0 for number, label in enumerate(labels[:1200])])
    train, test = np.flatnonzero(kept), slice(1200, None)
    head = solve(statistic(features[train], labels[train]))
    ones = np.hstack([features.astype(float), np.ones((len(features), 1))])
    plain = Ridge(alpha=head.ridge, fit_intercept=False).fit(ones[train], np.eye(10)[labels[train]])
    rare = labels[test] >= 5
    found = (ones[test] @ head.weights).argmax(axis=1) == labels[test]
    without = plain.predict(ones[test]).argmax(axis=1) == labels[test]
    assert found[rare].mean() > without[rare].mean() + 0.05
    assert found.mean() > without.mean()


def test_labels_of_equal_number_are_not_scaled_and_an_absent_one_is_never_said() -> None:
    features, labels = digits()
    chosen = np.concatenate([np.flatnonzero(labels == label)[:20] for label in range(10)])
    ones = np.hstack([features[chosen].astype(float), np.ones((len(chosen), 1))])
    peer = Ridge(alpha=3.0, fit_intercept=False, solver="cholesky").fit(ones, np.eye(10)[labels[chosen]])
    found = solve(statistic(features[chosen], labels[chosen]), 3.0)
    assert np.abs(found.weights - peer.coef_.T).max() < 1e-10
    some = labels < 9
    head = solve(statistic(features[some], labels[some]))
    assert not head.weights[:, 9].any()
    assert head.probabilities(features).argmax(axis=1).max() == 8


def test_probabilities_are_a_softmax_of_scores() -> None:
    features, labels = digits()
    head = solve(statistic(features, labels))
    found = head.probabilities(features[:5])
    scores = features[:5].astype(float) @ head.weights[:-1] + head.weights[-1]
    raised = np.exp(SHARPNESS * scores)
    assert np.allclose(found, raised / raised.sum(axis=1, keepdims=True), rtol=1e-12)


def test_cross_validation_chooses_nearly_the_best_strength() -> None:
    """Noise that explains nothing makes no penalty, and a huge one, worse than what is chosen."""
    rng = np.random.default_rng(0)
    features, labels = digits()
    noisy = np.hstack([features, rng.normal(0, 1, (len(features), 150)).astype(np.float32)])
    train, test = slice(0, 250), slice(250, None)
    total = statistic(noisy[train], labels[train])

    def error(ridge: float) -> float:
        head = solve(total, ridge)
        scores = noisy[test].astype(float) @ head.weights[:-1] + head.weights[-1]
        return float(np.square(scores - targets(labels)[test]).mean())

    chosen = solve(total).ridge
    assert chosen in RIDGES
    errors = {ridge: error(ridge) for ridge in RIDGES}
    assert errors[chosen] < 1.05 * min(errors.values())
    assert errors[chosen] < 0.9 * min(errors[RIDGES[0]], errors[RIDGES[-1]])


@pytest.mark.parametrize("bits", [12, 16])
def test_quantisation_costs_next_to_nothing(bits: int) -> None:
    """Against the same equations in float64, on features turned in ten ways."""
    features, labels = digits()
    train, test = slice(0, 900), slice(900, None)
    lost = []
    for seed in range(10):
        turn = np.random.default_rng(seed).normal(0, 0.3, (64, 64))
        mixed = (features @ turn).astype(np.float32)
        head = solve(statistic(mixed[train], labels[train], bits))
        ones = np.hstack([mixed.astype(float), np.ones((len(mixed), 1))])
        gram, cross = ones[train].T @ ones[train], ones[train].T @ targets(labels[train])
        exact = np.linalg.solve(gram + head.ridge * np.eye(65), cross)
        right = [
            ((ones[test] @ weights).argmax(axis=1) == labels[test]).mean()
            for weights in (exact, head.weights)
        ]
        lost.append(right[0] - right[1])
    assert abs(np.mean(lost)) < 0.002


def test_one_record_is_enough_and_none_is_not() -> None:
    features, labels = digits()
    head = solve(statistic(features[:1], labels[:1]))
    assert head.probabilities(features[:1]).argmax() == labels[0]
    with pytest.raises(InputError, match="no record is left"):
        solve(Statistic.empty(64, 10, 16))


def test_the_same_statistic_gives_the_same_bytes() -> None:
    features, labels = digits()
    parts = [statistic(features[start::3], labels[start::3]) for start in range(3)]
    one, other = parts[0] + parts[1] + parts[2], parts[2] + parts[0] + parts[1]
    assert solve(one).weights.tobytes() == solve(other).weights.tobytes()
