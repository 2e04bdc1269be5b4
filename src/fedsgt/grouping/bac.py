"""Barycenter-Aware Centering, the appendix's grouping."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedsgt.grouping.descent.repair import settle
from fedsgt.grouping.problem import Floats, Hints, Ints, Problem, read_embeddings

# Clusters are refined by exact assignment up to this many slices; above, bisection alone has to do.
MOST_REFINED = 1500
REFINEMENTS = 10
AXIS_STEPS = 20


def bac_groups(problem: Problem, hints: Hints, rng: np.random.Generator) -> Ints:
    """Algorithm 3 (BAC): one slice of every base cluster for every group, matched so that sums stay central.

    When L does not divide M the last base cluster is short, and the groups it leaves out stay one smaller.
    """
    vectors = read_embeddings(hints.embeddings, problem.total)
    vectors = vectors - vectors.mean(axis=0)
    group_of = np.full(problem.total, -1)
    sums = np.zeros((problem.groups, vectors.shape[1]))
    joined = np.zeros((len(problem.slices), problem.groups), dtype=bool)
    for stage, members in enumerate(base_clusters(vectors, problem.groups), start=1):
        cost = _stage_cost(sums, vectors[members], stage)
        if problem.binding:
            cost += _forbidden(problem, joined, members) * (1.0 + 4.0 * len(members) * np.abs(cost).max())
        groups, chosen = _assignment(cost)
        group_of[members[chosen]] = groups
        sums[groups] += vectors[members[chosen]]
        joined[problem.client_of[members[chosen]], groups] = True
    return settle(problem, vectors, group_of, rng)


def _stage_cost(sums: Floats, vectors: Floats, stage: int) -> Floats:
    """Groups x slices: |T_j + e(b) - l g|^2, with g = 0 since vectors are centred.

    A short stage leaves groups out, so there what counts is the change in a group's own term of Eq. 1.
    """
    before: Floats = (sums**2).sum(axis=1)[:, None]
    after: Floats = before + (vectors**2).sum(axis=1) + 2.0 * sums @ vectors.T
    if len(vectors) < len(sums):
        after = after / stage**2 - before / (stage - 1) ** 2
    return after


def _forbidden(problem: Problem, joined: NDArray[np.bool_], members: Ints) -> NDArray[np.bool_]:
    """Groups x slices: the slice's client has used up its limit, and the group is none of its own."""
    clients = problem.client_of[members]
    used_up = joined.sum(axis=1) >= problem.limits
    closed: NDArray[np.bool_] = used_up[clients][:, None] & ~joined[clients]
    return closed.T


def base_clusters(vectors: Floats, size: int) -> Iterator[Ints]:
    """Clusters of `size` similar slices each, and a shorter last one if they do not come out even."""
    slices = len(vectors)
    capacities = np.full(-(-slices // size), size)
    capacities[-1] = slices - size * (len(capacities) - 1)
    cluster_of = np.empty(slices, dtype=np.int64)
    _bisect(vectors, np.arange(slices), capacities, 0, cluster_of)
    if slices <= MOST_REFINED:
        cluster_of = _refine(vectors, cluster_of, capacities)
    return (np.flatnonzero(cluster_of == cluster) for cluster in range(len(capacities)))


def _bisect(vectors: Floats, members: Ints, capacities: Ints, first: int, cluster_of: Ints) -> None:
    """Cut across the longest axis, again and again, so that every part fills whole clusters."""
    if len(capacities) == 1:
        cluster_of[members] = first
        return
    half = len(capacities) // 2
    along = vectors[members] @ _longest_axis(vectors[members])
    order = members[np.argsort(along, kind="stable")]
    cut = int(capacities[:half].sum())
    _bisect(vectors, order[:cut], capacities[:half], first, cluster_of)
    _bisect(vectors, order[cut:], capacities[half:], first + half, cluster_of)


def _longest_axis(vectors: Floats) -> Floats:
    """The main principal axis by power iteration, from the farthest vector, so without a random start."""
    centred = vectors - vectors.mean(axis=0)
    axis: Floats = centred[(centred**2).sum(axis=1).argmax()]
    for _ in range(AXIS_STEPS):
        axis = axis / max(float(np.linalg.norm(axis)), 1e-300)
        axis = centred.T @ (centred @ axis)
    # An axis has two directions; take the one whose largest entry is positive.
    return axis if axis[np.abs(axis).argmax()] >= 0 else -axis


def _refine(vectors: Floats, cluster_of: Ints, capacities: Ints) -> Ints:
    """k-means with fixed cluster sizes: every place of a cluster is one column of an assignment problem."""
    place_of = np.repeat(np.arange(len(capacities)), capacities)
    for _ in range(REFINEMENTS):
        sums = np.zeros((len(capacities), vectors.shape[1]))
        np.add.at(sums, cluster_of, vectors)
        centres = sums / capacities[:, None]
        cost = (centres**2).sum(axis=1) - 2.0 * vectors @ centres.T
        _, places = _assignment(cost[:, place_of])
        if (place_of[places] == cluster_of).all():
            break
        cluster_of = place_of[places]
    return cluster_of


def _assignment(cost: Floats) -> tuple[Ints, Ints]:
    """The Hungarian method: rows and the columns given to them at the least total cost."""
    from scipy.optimize import linear_sum_assignment  # half a second to import, seldom needed

    return linear_sum_assignment(cost)
