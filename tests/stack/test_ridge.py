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


def statistic(features: np.ndarray, labels: np.ndarray, bits: int = 16) -> Statistic:
    return Statistic.of(features, labels.tolist(), 10, bits)


def test_it_is_ridge_regression() -> None:
    features, labels = digits()
    ones = np.hstack([features.astype(float), np.ones((len(features), 1))])
    peer = Ridge(alpha=3.0, fit_intercept=False, solver="cholesky").fit(ones, np.eye(10)[labels])
    # Digits are multiples of an eighth, which quantisation keeps as they are.
    assert np.abs(solve(statistic(features, labels), 3.0).weights - peer.coef_.T).max() < 1e-10


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
        return float(np.square(scores - np.eye(10)[labels[test]]).mean())

    chosen = solve(total).ridge
    assert chosen in RIDGES
    errors = {ridge: error(ridge) for ridge in RIDGES}
    assert errors[chosen] < 1.05 * min(errors.values())
    assert errors[chosen] < 0.9 * min(errors[RIDGES[0]], errors[RIDGES[-1]])


@pytest.mark.parametrize("bits", [12, 16])
def test_quantisation_costs_next_to_nothing(bits: int) -> None:
    """Against the same equations in float64, on features that are no multiples of anything."""
    rng = np.random.default_rng(0)
    features, labels = digits()
    mixed = (features @ rng.normal(0, 0.3, (64, 64))).astype(np.float32)
    train, test = slice(0, 900), slice(900, None)
    head = solve(statistic(mixed[train], labels[train], bits))
    ones = np.hstack([mixed[train].astype(float), np.ones((900, 1))])
    exact = np.linalg.solve(ones.T @ ones + head.ridge * np.eye(65), ones.T @ np.eye(10)[labels[train]])
    right = [
        (mixed[test].astype(float) @ weights[:-1] + weights[-1]).argmax(axis=1) == labels[test]
        for weights in (head.weights, exact)
    ]
    assert abs(right[0].mean() - right[1].mean()) < 0.002


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
