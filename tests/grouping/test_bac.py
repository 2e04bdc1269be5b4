"""BAC, the grouping of the appendix: by hand, its base clusters, and limits within the matching."""

import numpy as np
import pytest
from label_mixes import by_client

from fedsgt.grouping import Grouping, bac, make, objective
from fedsgt.grouping.problem import read_problem


def as_sets(grouping: Grouping) -> set[frozenset[int]]:
    return {frozenset(grouping.members(group).tolist()) for group in range(grouping.groups)}


def test_bac_by_hand() -> None:
    """Base clusters {0, 1} and {10, 13}, mean 6. Sums 0+13 and 1+10 miss 12 by 1 each, the other way by 2."""
    grouping = make("bac", [2, 2], 2, embeddings=[[0.0], [1.0], [10.0], [13.0]])
    assert as_sets(grouping) == {frozenset({0, 3}), frozenset({1, 2})}


def test_bac_with_a_short_last_cluster_by_hand() -> None:
    """Clusters {0, 1}, {6, 10}, {13}, mean 6. Stage 2 joins 0 with 10 and 1 with 6: off by -2 and -5 against
    -6 and -1. Then 13 is 7 too high, which helps the second: from 5/2 off to 2/3, the first from 1 to 5/3."""
    grouping = make("bac", [5], 2, embeddings=[[0.0], [1.0], [6.0], [10.0], [13.0]])
    assert as_sets(grouping) == {frozenset({0, 3}), frozenset({1, 2, 4})}


def test_a_short_stage_helps_the_group_that_gains_most() -> None:
    """The last slice (10, 0) brings (-4, 0) nearest to the mean, but (-6, 7) gains most from it."""
    grouping = make("bac", [4], 3, embeddings=[[-4.0, 0.0], [-6.0, 7.0], [0.0, -7.0], [10.0, 0.0]])
    assert as_sets(grouping) == {frozenset({0}), frozenset({1, 3}), frozenset({2})}


def test_bac_forbids_what_limits_forbid() -> None:
    """The matching itself does, before any exchange: without limits it would join 0 with 13 and 1 with 10."""
    vectors = np.array([[-6.0], [4.0], [-5.0], [7.0]])
    assert bac.match_clusters(read_problem([2, 2], 2, 1), vectors).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    assert bac.match_clusters(read_problem([2, 2], 2, None), vectors).tolist() in ([0, 1, 1, 0], [1, 0, 0, 1])


def test_refining_makes_base_clusters_tighter(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).random((60, 4))

    def width() -> float:
        clusters = [vectors[members] for members in bac.base_clusters(vectors, 7)]
        return float(sum(((own - own.mean(axis=0)) ** 2).sum() for own in clusters))

    refined = width()
    monkeypatch.setattr(bac, "MOST_REFINED", 0)
    assert refined < 0.95 * width()


def test_base_clusters_are_equal_in_size_and_find_blobs() -> None:
    rng = np.random.default_rng(0)
    blobs = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]], 6, axis=0)
    order = rng.permutation(24)
    clusters = list(bac.base_clusters((blobs + rng.normal(0, 0.1, blobs.shape))[order], 6))
    assert sorted(np.concatenate(clusters).tolist()) == list(range(24))
    assert all(len(set(map(tuple, blobs[order][cluster].tolist()))) == 1 for cluster in clusters)
    assert [len(cluster) for cluster in bac.base_clusters(blobs, 5)] == [5, 5, 5, 5, 4]


def test_large_bac_does_without_refining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bac, "MOST_REFINED", 10)
    vectors = by_client(0)
    made, chance = (make(name, [5] * 10, 10, embeddings=vectors) for name in ("bac", "random"))
    assert objective(made, vectors) < 0.4 * objective(chance, vectors)
