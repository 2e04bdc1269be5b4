"""Clients whose requests are related share groups, so that a burst of requests hits few groups."""

import numpy as np
from numpy.typing import ArrayLike

from fedsgt.errors import InputError
from fedsgt.grouping.descent.descend import bring_within_limits
from fedsgt.grouping.problem import Floats, Hints, Ints, Labels, Problem
from fedsgt.grouping.within_limits.packing import FreeRoom, Pieces, Place, hardest_first
from fedsgt.grouping.within_limits.random_assignment import find_assignment
from fedsgt.words import counted

# Numbers that repair by exchanges may keep in memory at once (240 MB).
MOST_NUMBERS = 30_000_000
# Length of a cluster's code vector: above it, random vectors are close enough to orthogonal.
CODE = 64

Places = list[Place]


def affinity_groups(problem: Problem, hints: Hints, rng: np.random.Generator) -> Ints:
    """Pack slices cluster by cluster into as few groups as possible (the paper's Discussion).

    If rates are given instead of clusters, clients are packed by falling rate: the first groups then get
    most of the requests.
    """
    if (hints.clusters is None) == (hints.rates is None):
        given = "neither" if hints.clusters is None else "both"
        raise InputError(f"affinity: {given} given of clusters and rates; exactly one is needed")
    if hints.clusters is not None:
        cluster_of = _read_clusters(hints.clusters, len(problem.slices))
        places = _places_by_size(problem, cluster_of, rng)
        codes = _codes(int(cluster_of.max()) + 1, rng)[cluster_of]
    else:
        # A client's requests fall on all its slices, so a group gets requests by the rate of each slice.
        rates = _read_rates(hints.rates, problem) / problem.slices
        cluster_of = _tiers(problem, rates, rng)
        places = _places_in_line(problem, cluster_of)
        codes = rates[:, None]
    # Clusters get their places first and clients within them, so that no client is drawn out of its cluster.
    group_of = _lay_clusters(problem, _by_cluster(cluster_of, rng), places, rng)
    if problem.within_limits(group_of):
        return group_of
    return _repair(problem, group_of, cluster_of, codes, rng)


def _read_clusters(clusters: Labels, count: int) -> Ints:
    """Return cluster numbers from 0, for labels of any kind."""
    labels = clusters.tolist() if isinstance(clusters, np.ndarray) else list(clusters)
    if len(labels) != count:
        raise InputError(
            f"clusters: {counted(len(labels), 'label')} for {counted(count, 'client')}; one for each client "
            "is needed"
        )
    # Numbers by first appearance: labels may be of types that cannot be sorted together.
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)


def _read_rates(rates: ArrayLike | None, problem: Problem) -> Floats:
    """Return the request rate of each client, checked."""
    count = len(problem.slices)
    try:
        values = np.asarray(rates, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("rates: not numbers; one for each client is needed") from error
    if values.shape != (count,):
        raise InputError(
            f"rates: shape {values.shape}; one rate for each of {counted(count, 'client')} is needed"
        )
    if not (np.isfinite(values) & (values >= 0)).all():
        client = int(np.argmin(np.isfinite(values) & (values >= 0)))
        raise InputError(
            f"client {problem.name(client)}: rate {values[client]} is not a finite number of at least 0"
        )
    return values


def _places_by_size(problem: Problem, cluster_of: Ints, rng: np.random.Generator) -> list[Places]:
    """Give each cluster the fewest groups that have room for it: largest first, ties at random."""
    totals = np.bincount(cluster_of, weights=problem.slices).astype(np.int64)
    free = FreeRoom.of(problem)
    places: list[Places] = [[] for _ in totals]
    for cluster in np.lexsort((rng.random(len(totals)), -totals)).tolist():
        places[cluster] = free.place_in_fewest(int(totals[cluster]))
    return places


def _tiers(problem: Problem, rates: Floats, rng: np.random.Generator) -> Ints:
    """Cut clients by falling rate into tiers of about one group: the group where the first slice falls."""
    # The last key of lexsort is the first to sort by; the random one decides ties.
    order = np.lexsort((rng.random(len(rates)), -rates))
    starts = np.cumsum(problem.slices[order]) - problem.slices[order]
    tier_of = np.empty(len(rates), dtype=np.int64)
    tier_of[order] = np.searchsorted(np.cumsum(problem.sizes), starts, side="right")
    return np.unique(tier_of, return_inverse=True)[1].astype(np.int64)


def _places_in_line(problem: Problem, tier_of: Ints) -> list[Places]:
    """Give the tiers consecutive places along the groups."""
    ends = np.cumsum(np.bincount(tier_of, weights=problem.slices).astype(np.int64))
    line = np.repeat(np.arange(problem.groups), problem.sizes)
    parts = [np.unique(part, return_counts=True) for part in np.split(line, ends[:-1])]
    return [list(zip(groups.tolist(), counts.tolist(), strict=True)) for groups, counts in parts]


def _codes(clusters: int, rng: np.random.Generator) -> Floats:
    """Return a vector for each cluster: orthogonal if they fit, else random and nearly so."""
    return np.eye(clusters) if clusters <= CODE else rng.standard_normal((clusters, CODE)) / CODE**0.5


def _by_cluster(cluster_of: Ints, rng: np.random.Generator) -> list[Ints]:
    """Return the clients of each cluster, in random order."""
    clients = rng.permutation(len(cluster_of))
    clients = clients[np.argsort(cluster_of[clients], kind="stable")]
    return np.split(clients, np.cumsum(np.bincount(cluster_of))[:-1])


def _lay_clusters(
    problem: Problem, clusters: list[Ints], places: list[Places], rng: np.random.Generator
) -> Ints:
    """Lay the clients of each cluster over its places; clients with tight limits choose first."""
    pieces = Pieces()
    for clients, own in zip(clusters, places, strict=True):
        # Clients without a limit fit anywhere, so they come last and take what is left.
        tied = problem.restricted[clients]
        order = np.concatenate([hardest_first(problem, clients[tied], rng), clients[~tied]])
        _place(problem, order, FreeRoom(own), pieces)
    return pieces.group_of()


def _place(problem: Problem, clients: Ints, free: FreeRoom, pieces: Pieces) -> None:
    """Place each client within its limit or, if there is no such room, in as few groups as possible."""
    for client in clients.tolist():
        size = int(problem.slices[client])
        pieces.add(client, free.place(size, int(problem.limits[client])) or free.place_in_fewest(size))


def _repair(
    problem: Problem, group_of: Ints, cluster_of: Ints, codes: Floats, rng: np.random.Generator
) -> Ints:
    """Repair a grouping in which clusters broke limits; with many slices, pack anew instead."""
    if problem.total * (2 * problem.groups + codes.shape[1]) <= MOST_NUMBERS:
        # Eq. 1 asks for groups alike; here like goes with like, hence the sign.
        return bring_within_limits(problem, codes[problem.client_of], group_of, rng, sign=-1.0)
    # Too many slices for exchanges: pack again over all groups, which keeps limits but fewer clusters.
    pieces = Pieces()
    _place(problem, np.concatenate(_by_cluster(cluster_of, rng)), FreeRoom.of(problem), pieces)
    packed = pieces.group_of()
    return packed if problem.within_limits(packed) else find_assignment(problem, rng)
