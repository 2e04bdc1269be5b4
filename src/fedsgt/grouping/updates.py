"""FedCIO's clusters: clients whose first updates point in the same direction share a group."""

import numpy as np

from fedsgt.errors import InputError
from fedsgt.grouping.problem import Floats, Hints, Ints, Problem, read_vectors
from fedsgt.words import counted

# Smallest similarity: above zero, so that the graph of the clients never falls apart.
LEAST = 1e-6


def update_groups(problem: Problem, hints: Hints, rng: np.random.Generator) -> Ints:
    """Put all slices of a client into the group of its cluster; groups may be of any size."""
    vectors = read_vectors("updates", hints.updates, "client", len(problem.slices))
    return clusters_of(vectors, problem.groups)[problem.client_of]


def clusters_of(vectors: Floats, clusters: int) -> Ints:
    """Return the cluster of each client (row), by spectral clustering on the cosine.

    No cluster is empty, and clusters are numbered by their lowest clients. A row of zeros, of a client with
    nothing to learn from, has no direction and goes to the first cluster.
    """
    moved = np.flatnonzero(vectors.any(axis=1))
    if len(moved) < clusters:
        raise InputError(
            f"groups: {clusters} clusters of {counted(len(moved), 'client')} that hold records; at most one "
            "for each"
        )
    alike = similarity(vectors[moved])
    found = np.zeros(len(vectors), dtype=np.int64)
    found[moved] = _by_lowest(filled(_spectral(alike, clusters), alike, clusters))
    return found


def similarity(vectors: Floats) -> Floats:
    """Return a weight of at most 1 for each pair of clients, from the cosine of their updates."""
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    weights: Floats = np.clip((1 + directions @ directions.T) / 2, LEAST, 1)
    return weights


def _spectral(alike: Floats, clusters: int) -> Ints:
    """Cut the graph of the clients into clusters; one cluster, or one client each, needs no cutting."""
    if clusters in (1, len(alike)):
        return np.arange(len(alike), dtype=np.int64) % clusters
    try:
        from sklearn.cluster import SpectralClustering  # a second to import, seldom needed
    except ImportError:
        raise InputError("grouping by updates needs scikit-learn: pip install 'fedsgt[train]'") from None
    # cluster_qr has no random restarts, so that the clusters do not depend on a seed.
    cut = SpectralClustering(clusters, affinity="precomputed", assign_labels="cluster_qr", random_state=0)
    return np.asarray(cut.fit_predict(alike), dtype=np.int64)


def filled(cluster_of: Ints, alike: Floats, clusters: int) -> Ints:
    """Give each empty cluster the least typical client of the largest: clustering may leave some empty."""
    found = cluster_of.copy()
    for empty in sorted(set(range(clusters)) - set(found.tolist())):
        inside = np.flatnonzero(found == np.bincount(found).argmax())
        found[inside[alike[np.ix_(inside, inside)].sum(axis=1).argmin()]] = empty
    return found


def _by_lowest(cluster_of: Ints) -> Ints:
    """Number the clusters anew, in the order of their lowest clients."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in cluster_of.tolist()])
