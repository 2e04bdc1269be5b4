"""Chains and weights to class probabilities: the order of the sum, its width, and the merged model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsgt.serving.answer import agreement, answer, mix_known

# Sums that depend on the order and the width of the numbers.
KNOWN = {
    (): np.array([[0.5, 0.5]], np.float32),
    ("a",): np.array([[0.1, 0.9]], np.float32),
    ("a", "b"): np.array([[0.7, 0.3]], np.float32),
    ("c",): np.array([[0.3, 0.7]], np.float32),
}
WEIGHTED = [(0.1, ("a",)), (0.2, ("a", "b")), (0.7, ("c",))]


def predict(chains: Sequence[tuple[str, ...]]) -> NDArray[np.float32]:
    return np.stack([KNOWN[chain] for chain in chains])


def predict_merged(mixture: Any) -> NDArray[np.float32]:
    assert mixture == tuple(WEIGHTED), "the chains and their weights, in order"
    return np.array([[0.1, 0.9]], np.float32)


@pytest.mark.parametrize("strategy", ["all", "min", "long"])
def test_probabilities_are_summed_in_float64_in_the_order_of_the_chains(strategy: str) -> None:
    found = answer(strategy, WEIGHTED, predict, predict_merged)
    first, second, third = (weight * KNOWN[chain].astype(np.float64) for weight, chain in WEIGHTED)
    assert found.dtype == np.float64
    assert np.array_equal(found, first + second + third)
    assert not np.array_equal(found, third + second + first), "else the order would not be tested"


def test_merged_is_one_model() -> None:
    found = answer("merged", WEIGHTED, predict, predict_merged)
    assert found.dtype == np.float64
    assert np.array_equal(found, np.array([[0.1, 0.9]], np.float32).astype(np.float64))


@pytest.mark.parametrize("strategy", ["all", "merged"])
def test_without_a_chain_the_bare_backbone_answers(strategy: str) -> None:
    assert answer(strategy, [], predict, predict_merged).tolist() == [[0.5, 0.5]]


def test_known_probabilities_are_mixed_alike() -> None:
    known = {(0,): KNOWN["a",], (0, 1): KNOWN["a", "b"], (2,): KNOWN["c",]}
    chosen = [(0, (0,), 0.1), (1, (0, 1), 0.2), (4, (2,), 0.7)]
    assert np.array_equal(mix_known(known, chosen), answer("all", WEIGHTED, predict, predict_merged))


def test_agreement_is_the_share_of_equal_labels() -> None:
    one = np.array([[0.6, 0.4], [0.6, 0.4], [0.1, 0.9], [0.2, 0.8]])
    other = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.0, 1.0]])
    assert agreement(one, other) == 0.75
