"""The methods that look at embeddings: closer to the whole than at random, and errors."""

from collections.abc import Callable

import numpy as np
import pytest
from label_mixes import by_class, by_client
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.grouping import make, objective

Floats = NDArray[np.float64]


def ratio(method: str, embeddings: Callable[[int], Floats], seeds: int = 12) -> float:
    """Eq. 1 against the mean over random groupings, averaged over data sets."""
    ratios = []
    for seed in range(seeds):
        vectors = embeddings(seed)
        chance = [objective(make("random", [5] * 10, 10, seed=other), vectors) for other in range(20)]
        made = make(method, [5] * 10, 10, seed=seed, embeddings=vectors)
        ratios.append(objective(made, vectors) / np.mean(chance))
    return float(np.mean(ratios))


@pytest.mark.parametrize(
    ("method", "embeddings", "most"),
    [
        ("centered", by_client, 0.13),
        ("bac", by_client, 0.21),
        ("centered", by_class, 0.16),
        ("bac", by_class, 0.24),
    ],
)
def test_groups_come_closer_to_the_whole_than_at_random(
    method: str, embeddings: Callable[[int], Floats], most: float
) -> None:
    assert ratio(method, embeddings) < most


@pytest.mark.parametrize("method", ["bac", "centered"])
@pytest.mark.parametrize("limits", [3, 2, 1])
def test_within_limits_it_is_no_worse_than_random_within_them(method: str, limits: int) -> None:
    made, chance = [], []
    for seed in range(6):
        vectors = by_client(seed)
        grouping = make(method, [5] * 10, 10, limits=limits, seed=seed, embeddings=vectors)
        assert ((grouping.counts() > 0).sum(axis=1) <= limits).all()
        made.append(objective(grouping, vectors))
        chance.append(objective(make("random", [5] * 10, 10, limits=limits, seed=seed), vectors))
    # At limit 1 every group is one whole client, and there is nothing to choose.
    assert np.mean(made) <= (1.0 + 1e-9 if limits == 1 else 0.8) * np.mean(chance)


@pytest.mark.parametrize("method", ["bac", "centered"])
@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        (None, "embeddings: none given"),
        ([1.0, 2.0, 3.0, 4.0], r"embeddings: shape \(4,\), but one row for each of 4 slices"),
        ([[1.0]] * 3, r"embeddings: shape \(3, 1\)"),
        (
            [[1.0], [2.0], [float("nan")], [0.0]],
            r"embeddings: row 2 \(slice 2\) holds a value that is not finite",
        ),
        ([[1.0], [2.0], [3.0], [float("inf")]], r"embeddings: row 3 \(slice 3\) holds"),
        ([["a"], ["b"], ["c"], ["d"]], "embeddings: not an array of numbers"),
    ],
)
def test_bad_embeddings_are_named(method: str, embeddings: list[list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(method, [2, 2], 2, embeddings=embeddings)


@pytest.mark.parametrize("method", ["bac", "centered"])
def test_equal_embeddings_are_no_trouble(method: str) -> None:
    grouping = make(method, [3, 4], 3, embeddings=np.full((7, 2), 0.3))
    assert sorted(grouping.group_sizes().tolist()) == [2, 2, 3]
