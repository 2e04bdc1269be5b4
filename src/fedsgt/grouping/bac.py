"""Barycenter-Aware Centering (BAC), the grouping of the paper's appendix."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedsgt.grouping.descent.descend import bring_within_limits
from fedsgt.grouping.problem import Floats, Hints, Ints, Problem, read_embeddings

# Clusters are refined by exact assignment, which takes cubic time, up to this many slices.
MOST_REFINED = 1500
REFINEMENTS = 10
AXIS_STEPS = 20


def bac_groups(problem: Problem, hints: Hints, rng: np.random.Generator) -> Ints:
    """Algorithm 3 (BAC), then exchanges where the matching alone did not keep the limits."""
    vectors = read_embeddings(hints.embeddings, problem.total)
    vectors = vectors - vectors.mean(axis=0)
    return bring_within_limits(problem, vectors, match_clusters(problem, vectors), rng)


def match_clusters(problem: Problem, vectors: Floats) -> Ints:
    """Give every group one slice of every base cluster, matched so that the sums of groups stay central.

    `vectors` are centred. If L does not divide M the last base cluster is short, and the groups that get
    none of it stay one slice smaller. Limits are kept as far as one stage after another can keep them.
    """
    group_of = np.full(problem.total, -1)
    sums = np.zeros((problem.groups, vectors.shape[1]))
    # Clients (rows) and the groups they are in so far: a client at its limit gets no further group.
    joined = np.zeros((len(problem.slices), problem.groups), dtype=bool)
    # Stage l gives each group its l-th slice, as in the appendix.
    for stage, members in enumerate(base_clusters(vectors, problem.groups), start=1):
        cost = _stage_cost(sums, vectors[members], stage)
        if problem.binding:
            # A forbidden pair costs more than all allowed pairs together, so it is taken only if it must be.
            cost += _forbidden(problem, joined, members) * (1.0 + 4.0 * len(members) * np.abs(cost).max())
        groups, chosen = _assignment(cost)
        group_of[members[chosen]] = groups
        sums[groups] += vectors[members[chosen]]
        joined[problem.client_of[members[chosen]], groups] = True
    return group_of


def _stage_cost(sums: Floats, vectors: Floats, stage: int) -> Floats:
    """Return groups x slices: |T_j + e(b) - l g|^2, with g = 0 because vectors are centred.

    A short stage leaves groups out, so there the cost is the change in a group's own term of Eq. 1.
    """
    before: Floats = (sums**2).sum(axis=1)[:, None]
    after: Floats = before + (vectors**2).sum(axis=1) + 2.0 * sums @ vectors.T
    if len(vectors) < len(sums):
        after = after / stage**2 - before / (stage - 1) ** 2
    return after


def _forbidden(problem: Problem, joined: NDArray[np.bool_], members: Ints) -> NDArray[np.bool_]:
    """Return groups x slices: whether the client has used up its limit and is not in the group yet."""
    clients = problem.client_of[members]
    used_up = joined.sum(axis=1) >= problem.limits
    closed: NDArray[np.bool_] = used_up[clients][:, None] & ~joined[clients]
    return closed.T


def base_clusters(vectors: Floats, size: int) -> Iterator[Ints]:
    """Yield clusters of `size` similar slices each; the last one is shorter if they do not divide evenly."""
    slices = len(vectors)
    capacities = np.full(-(-slices // size), size)
    capacities[-1] = slices - size * (len(capacities) - 1)
    cluster_of = np.empty(slices, dtype=np.int64)
    _bisect(vectors, np.arange(slices), capacities, 0, cluster_of)
    if slices <= MOST_REFINED:
        cluster_of = _refine(vectors, cluster_of, capacities)
    return (np.flatnonzero(cluster_of == cluster) for cluster in range(len(capacities)))


def _bisect(vectors: Floats, members: Ints, capacities: Ints, first: int, cluster_of: Ints) -> None:
    """Cut across the longest axis into two parts that fill whole clusters, and cut each part again."""
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
    """Return the first principal axis by power iteration from the farthest vector, without a random start."""
    centred = vectors - vectors.mean(axis=0)
    axis: Floats = centred[(centred**2).sum(axis=1).argmax()]
    for _ in range(AXIS_STEPS):
        # Vectors may all be equal: then the axis is zero, and the division must not fail.
        axis = axis / max(float(np.linalg.norm(axis)), 1e-300)
        axis = centred.T @ (centred @ axis)
    # An axis has two directions; take the one whose largest entry is positive, so that the result is unique.
    return axis if axis[np.abs(axis).argmax()] >= 0 else -axis


def _refine(vectors: Floats, cluster_of: Ints, capacities: Ints) -> Ints:
    """Run k-means with fixed cluster sizes: each place in a cluster is a column of an assignment problem."""
    place_of = np.repeat(np.arange(len(capacities)), capacities)
    for _ in range(REFINEMENTS):
        sums = np.zeros((len(capacities), vectors.shape[1]))
        np.add.at(sums, cluster_of, vectors)
        centres = sums / capacities[:, None]
        # The squared length of a slice's own vector is the same for every centre, so it is left out.
        cost = (centres**2).sum(axis=1) - 2.0 * vectors @ centres.T
        _, places = _assignment(cost[:, place_of])
        # Nothing moved: further rounds would change nothing.
        if (place_of[places] == cluster_of).all():
            break
        cluster_of = place_of[places]
    return cluster_of


def _assignment(cost: Floats) -> tuple[Ints, Ints]:
    """Return rows and the columns given to them at the least total cost (the Hungarian method)."""
    from scipy.optimize import linear_sum_assignment  # half a second to import, seldom needed

    return linear_sum_assignment(cost)
