"""Embeddings of slices for tests: label histograms of clients whose labels differ."""

import numpy as np
from numpy.typing import NDArray

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
