"""Number of clients that can leave whole, one after another, before no module of a plan is live.

A client that leaves hits every group that it is in, and makes no further request. Nothing is live as soon as
the first group of every sequence is hit; as in the deletion rate, the client that does this is counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans.scoring.montecarlo import TRIALS, Estimate
from fedsgt.plans.scoring.subsets import LARGEST_EXACT, sizes, subset_totals
from fedsgt.words import counted

CELLS = 4_000_000  # clients times trials in one batch, to bound memory


def clients_withstood(
    roots: Sequence[int], counts: NDArray[np.int64], prior: NDArray[np.float64] | None = None
) -> Estimate:
    """Return the expected number of clients that leave until every root is hit.

    `counts` has the slices of each client (row) in each group (column). `prior` is the chance of each client
    to be the next to leave, among those that have not left; None is uniform. The result is exact for a
    uniform prior and up to 20 roots, else simulated. It is infinite if nobody who may leave is in some root,
    and 0 without roots.
    """
    if not roots:
        return Estimate(0.0)
    held = counts[:, list(roots)] > 0
    if prior is not None:
        held, prior = held[prior > 0], prior[prior > 0]
    if not held.any(axis=0).all():
        return Estimate(math.inf)
    if len(roots) <= LARGEST_EXACT and (prior is None or np.ptp(prior) == 0):
        return Estimate(float(_exact(held)))
    return _simulated(held, np.ones(len(held)) if prior is None else prior)


def whole_clients_words(rate: float, clients: int) -> str:
    """Say after how many clients that left whole no module is live."""
    if math.isinf(rate):
        return "a module stays live, whichever clients leave whole"
    return f"no module is live after {left_whole_words(rate, clients)}"


def left_whole_words(rate: float, clients: int) -> str:
    """Return in words that so many of the clients left whole."""
    return f"about {rate:.1f} of {counted(clients, 'client')} left whole"


def _exact(held: NDArray[np.bool_]) -> Fraction:
    """Return the expectation by inclusion and exclusion over the sets of roots.

    If m of N clients are outside of a set, the first client to leave that is in it is expected to be number
    (N + 1) / (N + 1 - m).
    """
    clients, roots = held.shape
    masks = (held << np.arange(roots)).sum(axis=1)
    inside = np.bincount(masks, minlength=1 << roots).astype(np.float64)
    subset_totals(inside)
    # The clients outside of a set are those that hold only roots of its complement.
    outside = inside[::-1].astype(np.int64)
    signs = np.where(sizes(roots) % 2 == 1, 1, -1)
    signs[0] = 0  # the empty set is no term
    # Terms with the same number outside are summed as whole numbers, so nothing is rounded.
    terms = np.bincount(outside, weights=signs, minlength=clients + 1)
    return sum(
        (Fraction(int(sign) * (clients + 1), clients + 1 - out) for out, sign in enumerate(terms) if sign),
        Fraction(0),
    )


def _simulated(held: NDArray[np.bool_], prior: NDArray[np.float64]) -> Estimate:
    """Return the mean over drawn orders of leaving."""
    rng = np.random.default_rng(0)  # fixed, so that a score does not change from call to call
    batch = max(1, min(TRIALS, CELLS // len(held)))
    trials = min(TRIALS, 10 * batch)  # with very many clients the orders differ little
    found: list[NDArray[np.int64]] = []
    for start in range(0, trials, batch):
        # Exponential times with these rates come in the order of draws without replacement.
        times = rng.standard_exponential((min(batch, trials - start), len(held))) / prior
        last = np.max([times[:, own].min(axis=1) for own in held.T], axis=0)
        found.append((times <= last[:, None]).sum(axis=1))
    numbers = np.concatenate(found)
    error = max(float(numbers.std()), 1 / len(numbers)) / math.sqrt(len(numbers))
    return Estimate(float(numbers.mean()), error)
