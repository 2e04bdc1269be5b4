"""The one place where chains of modules and their weights become class probabilities.

The predictor, the evaluation and the measuring of forgetting all answer through `answer`, so that what is
evaluated and attacked is what is served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans import MERGED, Choice, Prefix

Floats: TypeAlias = NDArray[np.floating[Any]]
Chain: TypeAlias = tuple[str, ...]
"""Keys of the modules along a prefix, root first."""
Weighted: TypeAlias = Sequence[tuple[float, Chain]]
"""Chains with the weights of their answers, which sum to 1."""

BARE_BACKBONE: Weighted = [(1.0, ())]


def answer(
    strategy: str,
    weighted: Weighted,
    predict: Callable[[Sequence[Chain]], Iterable[Floats]],
    predict_merged: Callable[[tuple[tuple[float, Chain], ...]], Floats],
) -> NDArray[np.float64]:
    """Return the class probabilities (a row for each record) that the chosen chains give together.

    `predict` returns the probabilities under each chain, `predict_merged` those under the one model that
    `merged` makes of all of them. Without a chain, the bare backbone answers.
    """
    if strategy == MERGED and any(chain for _, chain in weighted):
        return predict_merged(tuple(weighted)).astype(np.float64)
    weights, chains = zip(*(weighted or BARE_BACKBONE), strict=True)
    return _mix(zip(weights, predict(chains), strict=True))


def mix_known(known: Mapping[Prefix, Floats], chosen: Iterable[Choice]) -> NDArray[np.float64]:
    """Return the same as `answer`, from known probabilities under each chosen prefix."""
    return _mix((weight, known[prefix]) for _, prefix, weight in chosen)


def _mix(weighted: Iterable[tuple[float, Floats]]) -> NDArray[np.float64]:
    # Floating-point sums depend on their order and width: float64, and always in the order of the sequences.
    first, *rest = (weight * probabilities.astype(np.float64) for weight, probabilities in weighted)
    return sum(rest, first)


def agreement(one: Floats, other: Floats) -> float:
    """Return the share of records to which both give the same label."""
    return float((one.argmax(axis=-1) == other.argmax(axis=-1)).mean())
