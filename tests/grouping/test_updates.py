"""FedCIO's clusters: clients whose updates point the same way, however far they go."""

from typing import Any

import numpy as np
import pytest

from fedsgt.errors import InputError
from fedsgt.grouping import make
from fedsgt.grouping.problem import Floats
from fedsgt.grouping.updates import clusters_of, filled, similarity


def pointing(directions: list[int], noise: float = 0.1) -> Floats:
    """Updates of very unlike lengths along a few axes."""
    rng = np.random.default_rng(3)
    vectors = np.eye(8)[directions] + noise * rng.standard_normal((len(directions), 8))
    return vectors * rng.uniform(0.01, 100, (len(directions), 1))


@pytest.mark.parametrize("directions", [[0, 1, 2, 0, 1, 2], [0, 0, 1, 1, 1, 2, 0], [0, 1, 0, 1, 2, 2, 3]])
def test_clusters_are_directions_numbered_by_their_lowest_clients(directions: list[int]) -> None:
    count = max(directions) + 1
    assert clusters_of(pointing(directions), count).tolist() == directions


def test_opposite_updates_are_the_least_alike() -> None:
    vectors = np.array([[1.0, 0.1], [-1.0, -0.1], [2.0, 0.2], [-3.0, -0.3]])
    assert clusters_of(vectors, 2).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("clusters", [1, 2, 3, 4, 5])
def test_every_cluster_has_a_client_even_if_all_are_alike(clusters: int) -> None:
    found = clusters_of(np.ones((5, 3)), clusters)
    assert sorted(set(found.tolist())) == list(range(clusters))
    assert found.tolist() == clusters_of(np.ones((5, 3)), clusters).tolist()


def test_an_empty_cluster_gets_the_least_typical_client_of_the_largest() -> None:
    alike = similarity(np.array([[1, 0.0], [1, 0.1], [1, 0.2], [0, 1], [-1, 0]]))
    assert filled(np.array([0, 0, 0, 0, 2]), alike, 3).tolist() == [0, 0, 0, 1, 2]
    assert filled(np.array([1, 1, 1, 0, 2]), alike, 3).tolist() == [1, 1, 1, 0, 2]


def test_a_client_that_changed_nothing_makes_no_cluster() -> None:
    vectors = pointing([0, 1, 0, 1, 2])
    vectors[1] = 0
    assert clusters_of(vectors, 3).tolist() == [0, 0, 0, 1, 2]
    with pytest.raises(InputError, match=r"^groups: 5 clusters of 4 clients that hold records"):
        clusters_of(vectors, 5)


def test_all_slices_of_a_client_are_together_whatever_the_limits_and_sizes() -> None:
    grouping = make("updates", [1, 4, 2], 2, limits=1, updates=np.array([[1, 0], [1, 0.1], [0, 1]]))
    assert grouping.group_of.tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert grouping.looks_at_data


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        (None, "^updates: none given"),
        ([[1.0], [2.0]], r"^updates: shape \(2, 1\), but one row for each of 3 clients"),
        (["a", "b", "c"], "^updates: not an array of numbers"),
        ([[1.0], [2.0], [np.nan]], r"^updates: row 2 \(client 2\) holds a value that is not finite"),
    ],
)
def test_updates_that_cannot_be_used(updates: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make("updates", [1, 1, 1], 2, updates=updates)
