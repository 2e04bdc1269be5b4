"""What the searches optimise: service over the requests to come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans.scoring.subsets import subset_sums, superset_mobius


def horizon(groups: int) -> range:
    """The requests over which live data is averaged: 1..15 at ten groups, and in proportion."""
    return range(1, max(2, round(1.5 * groups)) + 1)


def unhit_weights(groups: int, prior: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """For each set of groups, the chance that exactly these are unhit, averaged over the horizon."""
    chances = np.full(groups, 1 / groups) if prior is None else prior
    misses = np.maximum(1 - subset_sums(chances), 0)
    table: NDArray[np.float64] = np.mean([misses**count for count in horizon(groups)], axis=0)
    superset_mobius(table)
    return np.maximum(table, 0)  # rounding leaves tiny negatives
