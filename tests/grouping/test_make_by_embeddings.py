"""The methods that look at embeddings: BAC, swap descent, and what they share."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.grouping import Grouping, bac, make, objective
from fedsgt.grouping.descent import swaps
from fedsgt.grouping.descent.descend import bring_within_limits
from fedsgt.grouping.descent.swaps import ALL, Swaps
from fedsgt.grouping.problem import read_problem
from fedsgt.grouping.result import deviation

Floats = NDArray[np.float64]


def by_class(seed: int, clients: int = 10, slices: int = 5, classes: int = 10, records: int = 5000) -> Floats:
    """Label histograms of slices: each class is shared out by Dirichlet(0.3), clients are cut at random."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=records)
    owner = np.zeros(records, dtype=np.int64)
    while np.bincount(owner, minlength=clients).min() < 2 * slices:
        for label in range(classes):
            own = np.flatnonzero(labels == label)
            owner[own] = rng.choice(clients, size=len(own), p=rng.dirichlet(np.full(clients, 0.3)))
    parts = [
        part
        for client in range(clients)
        for part in np.array_split(rng.permutation(np.flatnonzero(owner == client)), slices)
    ]
    return np.array([np.bincount(labels[part], minlength=classes) / len(part) for part in parts])


def by_client(seed: int, clients: int = 10, slices: int = 5, classes: int = 10) -> Floats:
    """Label histograms of slices of 100 records, of clients whose label mix is Dirichlet(0.3)."""
    rng = np.random.default_rng(seed)
    mixes = rng.dirichlet(np.full(classes, 0.3), size=clients)
    return np.array([rng.multinomial(100, mix) / 100 for mix in mixes for _ in range(slices)])


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


@pytest.mark.parametrize("limits", [None, 3])
def test_centered_is_never_worse_than_bac(limits: int | None) -> None:
    for seed in range(5):
        vectors = by_class(seed)
        made = [make(name, [5] * 10, 10, limits=limits, embeddings=vectors) for name in ("centered", "bac")]
        assert objective(made[0], vectors) <= objective(made[1], vectors) + 1e-12


def test_centered_finds_the_best_of_all_small_groupings() -> None:
    vectors = np.random.default_rng(0).random((8, 2))
    grouping = make("centered", [2] * 4, 2, embeddings=vectors)
    halves = [np.array([code >> bit & 1 for bit in range(8)]) for code in range(256) if code.bit_count() == 4]
    assert objective(grouping, vectors) == pytest.approx(min(deviation(half, vectors, 2) for half in halves))


@pytest.mark.parametrize(("in_matrix", "partners"), [(3000, 4096), (0, 4096), (0, 100)])
def test_centered_works_in_parts(monkeypatch: pytest.MonkeyPatch, in_matrix: int, partners: int) -> None:
    """Many slices: not all pairs at once, distances not kept, partners sampled."""
    monkeypatch.setattr(swaps, "MOST_IN_MATRIX", in_matrix)
    monkeypatch.setattr(swaps, "PARTNERS", partners)
    vectors = by_client(0, clients=140)
    made, chance = (make(name, [5] * 140, 20, embeddings=vectors) for name in ("centered", "random"))
    assert objective(made, vectors) < 0.02 * objective(chance, vectors)


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


@pytest.mark.parametrize("in_matrix", [3000, 0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_predicted_changes_are_what_exchanging_does(
    monkeypatch: pytest.MonkeyPatch, in_matrix: int, sign: float
) -> None:
    monkeypatch.setattr(swaps, "MOST_IN_MATRIX", in_matrix)
    rng = np.random.default_rng(0)
    problem = read_problem([3, 4, 4], 3, [2, 2, None])
    vectors, group_of = rng.random((11, 2)) + 5.0, rng.permutation([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    state = Swaps(problem, vectors, group_of, sign)
    for _ in range(30):
        first, second = rng.integers(11, size=2).tolist()
        before = sign * deviation(state.group_of, vectors, 3)
        change = state.changes(np.array([first]), np.array([second]))[0, 0]
        assert state.changes(ALL, ALL)[first, second] == pytest.approx(change)
        state.swap(first, second)
        assert state.value() == pytest.approx(sign * deviation(state.group_of, vectors, 3))
        assert state.value() - before == pytest.approx(change)


def test_predicted_limits_are_what_exchanging_does() -> None:
    rng = np.random.default_rng(1)
    problem = read_problem([3, 4, 4], 4, [2, 2, None])
    state = Swaps(problem, rng.random((11, 2)), rng.permutation([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]))
    for _ in range(60):
        first, second = rng.integers(11, size=2).tolist()
        clients = problem.client_of[[first, second]]
        if clients[0] == clients[1]:
            continue
        predicted = state.over_after(np.array([first]), np.array([second]))[0, 0]
        state.swap(first, second)
        excess = np.maximum(problem.spread(state.group_of) - problem.limits, 0)
        assert (state.over() == excess).all()
        assert predicted == excess[clients].sum()


def test_repair_keeps_sizes_and_most_of_the_grouping() -> None:
    problem = read_problem([5] * 10, 10, [4] + [None] * 9)
    vectors = by_client(0)
    free = make("centered", [5] * 10, 10, embeddings=vectors).group_of
    start = free if problem.spread(free)[0] > 4 else make("bac", [5] * 10, 10, embeddings=vectors).group_of
    assert not problem.within_limits(start)
    settled = bring_within_limits(problem, vectors, start, np.random.default_rng(0))
    assert problem.within_limits(settled)
    assert (np.bincount(settled) == 5).all()
    assert (settled != start).sum() == 2


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
