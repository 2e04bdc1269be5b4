"""Related clients share groups, so a burst of requests hits few."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.grouping import Grouping, affinity, make

CLUSTERS = np.repeat(np.arange(8), 5)
SLICES = [5] * 40


def hit_by_burst(grouping: Grouping, requests: int = 10, trials: int = 200) -> float:
    """Mean number of distinct groups hit by requests for random slices of one random cluster's clients."""
    rng = np.random.default_rng(0)
    hit = []
    for _ in range(trials):
        burst = np.flatnonzero(CLUSTERS[grouping.client_of] == rng.integers(8))
        hit.append(len(np.unique(grouping.group_of[rng.choice(burst, size=requests)])))
    return float(np.mean(hit))


@pytest.mark.parametrize("limits", [None, 2, 1])
def test_a_burst_from_one_cluster_hits_few_groups(limits: int | None) -> None:
    near = make("affinity", SLICES, 20, limits=limits, clusters=CLUSTERS)
    far = make("random", SLICES, 20)
    # 25 slices per cluster, 10 per group: three groups each, where random spreads over most of 20.
    assert hit_by_burst(near) <= 3.0
    assert hit_by_burst(far) > 7.0
    assert ((near.counts() > 0).sum(axis=1) <= (limits or 20)).all()


def groups_touched(grouping: Grouping, clusters: list[object]) -> list[int]:
    """Return the number of groups that each cluster's clients are in."""
    own = [[i for i, cluster in enumerate(clusters) if cluster == label] for label in dict.fromkeys(clusters)]
    return [int(np.count_nonzero(grouping.counts()[clients].sum(axis=0))) for clients in own]


def test_clusters_take_the_fewest_groups_that_balance_allows() -> None:
    # Groups of 5: the cluster of 10 takes two whole ones, those of 3 and 2 share the third.
    clusters: list[object] = ["ten", "ten", None, 7]
    for seed in range(10):
        grouping = make("affinity", [5, 5, 3, 2], 3, clusters=clusters, seed=seed)
        assert groups_touched(grouping, clusters) == [2, 1, 1]


def test_large_clusters_come_first() -> None:
    # The other way round the small ones would share a group, and one of the large be cut in three.
    clusters: list[object] = [0, 1, 2, 3, 4, 5]
    grouping = make("affinity", [4, 4, 4, 1, 1, 1], 3, clusters=clusters)
    assert groups_touched(grouping, clusters) == [1] * 6


def test_the_order_is_seeded() -> None:
    made = [make("affinity", SLICES, 20, clusters=CLUSTERS, seed=seed).group_of for seed in (0, 0, 1)]
    assert (made[0] == made[1]).all()
    assert (made[0] != made[2]).any()


@pytest.mark.parametrize("limits", [None, 2, 1])
def test_high_rates_are_packed_together(limits: int | None) -> None:
    rates = np.random.default_rng(0).permutation([10.0] * 8 + [1.0] * 32)
    near, far = (make(method, SLICES, 20, limits=limits, rates=rates) for method in ("affinity", "random"))

    def per_group(grouping: Grouping) -> NDArray[np.float64]:
        return np.array([rates[grouping.client_of[grouping.members(group)]].sum() for group in range(20)])

    # The eight hot clients fill the first four groups.
    assert per_group(near)[:4].tolist() == [100.0] * 4
    assert np.sort(per_group(far))[-4:].sum() < 320.0


def test_rates_count_per_slice() -> None:
    """Ten requests on one slice heat a group more than eleven on eleven slices."""
    grouping = make("affinity", [11, 1], 12, rates=[11.0, 10.0])
    assert np.flatnonzero(grouping.counts()[1]).tolist() == [0]


@pytest.mark.parametrize("most_numbers", [affinity.MOST_NUMBERS, 0])
def test_limits_come_before_clusters(monkeypatch: pytest.MonkeyPatch, most_numbers: int) -> None:
    """By exchanges, and with more slices than exchanges can bear, which the bound stands for, by packing."""
    monkeypatch.setattr(affinity, "MOST_NUMBERS", most_numbers)
    # Whole clients of 2 and 3 fill groups of 5 only across the two clusters.
    slices, clusters = [2, 2, 2, 3, 3, 3], [0, 0, 0, 1, 1, 1]
    for seed in range(10):
        grouping = make("affinity", slices, 3, limits=1, clusters=clusters, seed=seed)
        assert (grouping.counts() > 0).sum(axis=1).tolist() == [1] * 6
        assert grouping.group_sizes().tolist() == [5, 5, 5]


def test_where_limits_break_clusters_they_stay_together_as_far_as_they_can() -> None:
    near, far = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        slices, clusters = rng.integers(2, 6, size=36), rng.integers(6, size=36).tolist()
        made = [
            make(method, slices, 8, limits=1, seed=seed, clusters=clusters)
            for method in ("affinity", "random")
        ]
        near.append(sum(groups_touched(made[0], clusters)))
        far.append(sum(groups_touched(made[1], clusters)))
    assert np.mean(near) < 0.7 * np.mean(far)


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        ({}, "affinity: neither given of clusters and rates; exactly one is needed"),
        ({"clusters": [0, 1], "rates": [1.0, 2.0]}, "affinity: both given of clusters and rates"),
        ({"clusters": [0]}, "clusters: 1 label for 2 clients"),
        ({"rates": [1.0]}, r"rates: shape \(1,\)"),
        ({"rates": [1.0, -1.0]}, "client 1: rate -1.0 is not a finite number of at least 0"),
        ({"rates": [float("nan"), 1.0]}, "client 0: rate nan is not"),
        ({"rates": ["often", "never"]}, "rates: not numbers"),
    ],
)
def test_bad_hints_are_named(hints: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make("affinity", [2, 2], 2, **hints)
