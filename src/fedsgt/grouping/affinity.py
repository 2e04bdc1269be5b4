"""Clients whose requests are related share groups, so that a burst of requests hits few of them."""

import numpy as np
from numpy.typing import ArrayLike

from fedsgt.errors import InputError
from fedsgt.grouping.descent.repair import settle
from fedsgt.grouping.problem import Floats, Hints, Ints, Labels, Problem
from fedsgt.grouping.within_limits.packing import Holes, Pieces, Place, hardest_first
from fedsgt.grouping.within_limits.randomized import any_assignment

# Numbers that repair by exchange may keep in memory at once, and the length of a cluster's code vector.
MOST_NUMBERS = 30_000_000
CODE = 64

Places = list[Place]


def affinity_groups(problem: Problem, hints: Hints, rng: np.random.Generator) -> Ints:
    """The paper's Discussion, request distribution: pack slices cluster by cluster into as few groups as go.

    Given rates instead, clients are packed from the highest rate down: the first groups get most requests.
    """
    if (hints.clusters is None) == (hints.rates is None):
        given = "neither" if hints.clusters is None else "both"
        raise InputError(f"affinity: {given} given of clusters and rates, exactly one is needed")
    if hints.clusters is not None:
        cluster_of = _read_clusters(hints.clusters, len(problem.slices))
        places = _places_by_size(problem, cluster_of, rng)
        codes = _codes(int(cluster_of.max()) + 1, rng)[cluster_of]
    else:
        # A client's requests fall on all its slices: what makes a group hot is the rate per slice.
        rates = _read_rates(hints.rates, len(problem.slices)) / problem.slices
        cluster_of = _tiers(problem, rates, rng)
        places = _places_in_line(problem, cluster_of)
        codes = rates[:, None]
    group_of = _laid(problem, _by_cluster(cluster_of, rng), places, rng)
    if problem.within_limits(group_of):
        return group_of
    return _within_limits(problem, group_of, cluster_of, codes, rng)


def _read_clusters(clusters: Labels, count: int) -> Ints:
    """Cluster numbers from 0, from labels of any kind."""
    labels = clusters.tolist() if isinstance(clusters, np.ndarray) else list(clusters)
    if len(labels) != count:
        raise InputError(f"clusters: {len(labels)} labels for {count} clients, one per client is needed")
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)


def _read_rates(rates: ArrayLike | None, count: int) -> Floats:
    try:
        values = np.asarray(rates, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("rates: not numbers, one per client") from error
    if values.shape != (count,):
        raise InputError(f"rates: shape {values.shape}, but one rate for each of {count} clients is needed")
    if not (np.isfinite(values) & (values >= 0)).all():
        client = int(np.argmin(np.isfinite(values) & (values >= 0)))
        raise InputError(f"client {client}: rate {values[client]} is not a finite number of at least 0")
    return values


def _places_by_size(problem: Problem, cluster_of: Ints, rng: np.random.Generator) -> list[Places]:
    """Largest cluster first, equals at random: each takes the fewest groups that have room for it."""
    totals = np.bincount(cluster_of, weights=problem.slices).astype(np.int64)
    holes = Holes.of(problem)
    places: list[Places] = [[] for _ in totals]
    for cluster in np.lexsort((rng.random(len(totals)), -totals)).tolist():
        places[cluster] = holes.place_in_fewest(int(totals[cluster]))
    return places


def _tiers(problem: Problem, rates: Floats, rng: np.random.Generator) -> Ints:
    """Clients by falling rate in lots of about one group: a tier is where a client's first slice falls."""
    order = np.lexsort((rng.random(len(rates)), -rates))
    starts = np.cumsum(problem.slices[order]) - problem.slices[order]
    tier_of = np.empty(len(rates), dtype=np.int64)
    tier_of[order] = np.searchsorted(np.cumsum(problem.sizes), starts, side="right")
    return np.unique(tier_of, return_inverse=True)[1].astype(np.int64)


def _places_in_line(problem: Problem, tier_of: Ints) -> list[Places]:
    """Tier after tier along the groups."""
    ends = np.cumsum(np.bincount(tier_of, weights=problem.slices).astype(np.int64))
    line = np.repeat(np.arange(problem.groups), problem.sizes)
    parts = [np.unique(part, return_counts=True) for part in np.split(line, ends[:-1])]
    return [list(zip(groups.tolist(), counts.tolist(), strict=True)) for groups, counts in parts]


def _codes(clusters: int, rng: np.random.Generator) -> Floats:
    """A vector per cluster: orthogonal where that fits, else random and nearly so."""
    return np.eye(clusters) if clusters <= CODE else rng.standard_normal((clusters, CODE)) / CODE**0.5


def _by_cluster(cluster_of: Ints, rng: np.random.Generator) -> list[Ints]:
    """The clients of each cluster, in random order."""
    clients = rng.permutation(len(cluster_of))
    clients = clients[np.argsort(cluster_of[clients], kind="stable")]
    return np.split(clients, np.cumsum(np.bincount(cluster_of))[:-1])


def _laid(problem: Problem, clusters: list[Ints], places: list[Places], rng: np.random.Generator) -> Ints:
    """Every cluster's clients over that cluster's places, those with tight limits first."""
    pieces = Pieces()
    for clients, own in zip(clusters, places, strict=True):
        tied = problem.restricted[clients]
        order = np.concatenate([hardest_first(problem, clients[tied], rng), clients[~tied]])
        _place(problem, order, Holes(own), pieces)
    return pieces.spelled_out()


def _place(problem: Problem, clients: Ints, holes: Holes, pieces: Pieces) -> None:
    """Each client within its limit, or where there is no such place, in as few groups as go."""
    for client in clients.tolist():
        size = int(problem.slices[client])
        pieces.add(client, holes.place(size, int(problem.limits[client])) or holes.place_in_fewest(size))


def _within_limits(
    problem: Problem, group_of: Ints, cluster_of: Ints, codes: Floats, rng: np.random.Generator
) -> Ints:
    """When clusters and limits do not fit together, limits win: repair, or with many slices pack anew."""
    if problem.total * (2 * problem.groups + codes.shape[1]) <= MOST_NUMBERS:
        # Like with like is the opposite of Eq. 1, hence the sign.
        return settle(problem, codes[problem.client_of], group_of, rng, sign=-1.0)
    pieces = Pieces()
    _place(problem, np.concatenate(_by_cluster(cluster_of, rng)), Holes.of(problem), pieces)
    packed = pieces.spelled_out()
    return packed if problem.within_limits(packed) else any_assignment(problem, rng)
