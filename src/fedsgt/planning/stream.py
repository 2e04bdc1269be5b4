"""Streams of requests, and what they leave of a plan if the groups of each client's slices are known.

A request deletes records of one slice, or a whole client, which hits every group that the client is in. A
client that has left makes no further request. The paper has requests for single slices only, and draws their
groups uniformly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.planning.purpose import Purpose
from fedsgt.plans import Estimate, Plan, check_prior
from fedsgt.plans.scoring.montecarlo import Curves, independent_hits, simulate
from fedsgt.plans.scoring.scores import Expansion, expansion
from fedsgt.plans.scoring.subsets import LARGEST_EXACT, subset_sums, subset_totals
from fedsgt.words import counted

# Tries to draw a client that has not left, before the chances of those left are worked out.
REDRAWS = 20
# A probability of service below this is rounding, and all later ones are zero.
NOTHING = 1e-15

# Slices of each client (row) in each group (column).
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """A stream of requests from clients that are drawn by a prior."""

    requests: int
    """Number of requests."""
    whole_clients: int = 0
    """Number of requests among them that delete a whole client, spread evenly over the stream."""
    prior: tuple[float, ...] | None = None
    """Chance of each client to make a request; None is uniform."""

    def __post_init__(self) -> None:
        if self.requests < 0:
            raise InputError(f"requests: {self.requests} is negative; at least 0")
        if not 0 <= self.whole_clients <= self.requests:
            raise InputError(
                f"client requests: {self.whole_clients} is not from 0 to {self.requests} (all requests)"
            )

    @classmethod
    def for_purpose(
        cls, purpose: Purpose, requests: int, clients: int, prior: tuple[float, ...] | None
    ) -> Stream:
        """Return a stream of these requests for records; for clients half of all leave; or both."""
        may_leave = clients if prior is None else sum(chance > 0 for chance in prior)
        leaving = 0 if purpose is Purpose.RECORDS else max(1, may_leave // 2)
        return cls(leaving if purpose is Purpose.CLIENTS else max(requests, leaving), leaving, prior)

    def kinds(self) -> list[bool]:
        """Return, for each request in turn, whether it deletes a whole client."""
        left = [self.whole_clients * count // max(1, self.requests) for count in range(self.requests + 1)]
        return [after > before for before, after in pairwise(left)]


def run_stream(plan: Plan, counts: Counts, stream: Stream) -> Curves:
    """Return the service of a plan after each request.

    It is exact up to 20 groups, unless whole clients leave under an uneven prior; else it is simulated.
    """
    clients = counts.shape[0]
    if counts.shape != (clients, plan.groups):
        raise InputError(
            f"counts: shape {counts.shape}; the plan needs clients x {counted(plan.groups, 'group')}"
        )
    prior = None if stream.prior is None else check_prior(stream.prior, clients, "client")
    may_leave = clients if prior is None else int((prior > 0).sum())
    if stream.whole_clients > may_leave:
        raise InputError(
            f"client requests: {stream.whole_clients}, but only {counted(may_leave, 'client')} can leave"
        )
    if not plan.modules:  # exact for any number of groups
        nothing = [Estimate(0.0)] * (stream.requests + 1)
        return Curves(nothing, nothing, Estimate(0.0))
    even = prior is None or bool(np.ptp(prior) == 0)
    if plan.groups <= LARGEST_EXACT and (even or stream.whole_clients == 0):
        return _exact(plan, counts, stream, prior)
    return simulate_stream(plan, counts, stream, prior)


def group_prior(counts: Counts, prior: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the chance of each group to be hit by a request for a random slice of a client by the prior."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    weights = np.full(len(counts), 1 / len(counts)) if prior is None else prior
    chances: NDArray[np.float64] = weights @ shares
    return chances


def _exact(plan: Plan, counts: Counts, stream: Stream, prior: NDArray[np.float64] | None) -> Curves:
    """Update P(B unhit) request by request, for every set B of the plan's expansion."""
    clients, terms = counts.shape[0], expansion(plan)
    hit = subset_sums(group_prior(counts, prior))[terms.masks]
    outside = _clients_outside(plan.groups, counts, terms)
    unhit, gone = np.ones(len(terms.masks)), 0
    live, alive = [Estimate(terms.live.sum())], [Estimate(terms.alive.sum())]
    for whole_client in stream.kinds():
        if whole_client:
            # B stays unhit if the next client to leave has no slice in it.
            unhit *= np.maximum(outside - gone, 0) / (clients - gone)
            gone += 1
        else:
            # The clients that left had no slice in B, so the others hit it with a higher chance.
            unhit *= np.maximum(1 - hit * clients / (clients - gone), 0)
        live.append(Estimate(float(terms.live @ unhit)))
        alive.append(Estimate(float(np.clip(terms.alive @ unhit, 0, 1))))  # rounding may leave 0..1
        if alive[-1] < NOTHING:
            break
    over = [Estimate(0.0)] * (stream.requests + 1 - len(live))
    return Curves(live + over, alive + over, Estimate(sum(alive)))


def _clients_outside(groups: int, counts: Counts, terms: Expansion) -> NDArray[np.float64]:
    """Return the number of clients without a slice in B, for each B of the expansion."""
    held = ((counts > 0) << np.arange(groups)).sum(axis=1)
    table = np.bincount(held, minlength=1 << groups).astype(np.float64)
    subset_totals(table)
    everything = (1 << groups) - 1
    result: NDArray[np.float64] = table[everything & ~terms.masks]
    return result


def simulate_stream(plan: Plan, counts: Counts, stream: Stream, prior: NDArray[np.float64] | None) -> Curves:
    """Return the service of a plan after each request, estimated by simulation."""
    if stream.whole_clients == 0:
        draw = independent_hits(plan.groups, stream.requests, group_prior(counts, prior))
    else:
        chances = np.full(len(counts), 1 / len(counts)) if prior is None else prior
        draw = partial(_first_hits, counts, stream, chances)
    return simulate(plan, range(stream.requests + 1), draw)


def _first_hits(
    counts: Counts, stream: Stream, prior: NDArray[np.float64], rng: np.random.Generator, trials: int
) -> NDArray[np.int64]:
    """Return the request that first hits each group in each trial; one past the last if none does."""
    groups = counts.shape[1]
    slice_shares = np.cumsum(counts / counts.sum(axis=1, keepdims=True), axis=1)
    hits = np.full((trials, groups), stream.requests + 1, dtype=np.int64)
    gone = np.empty((trials, 0), dtype=np.int64)
    for request, whole_client in enumerate(stream.kinds(), start=1):
        if (hits < request).all():
            break  # every group is hit already
        drawn = _draw_clients(prior, gone, rng)
        if whole_client:
            hit_now = counts[drawn] > 0
            gone = np.column_stack([gone, drawn])
        else:
            group = (slice_shares[drawn] < rng.random((trials, 1))).sum(axis=1).clip(max=groups - 1)
            hit_now = np.arange(groups) == group[:, None]
        hits = np.where(hit_now, np.minimum(hits, request), hits)
    return hits


def _draw_clients(
    prior: NDArray[np.float64], gone: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw a client for each trial by the prior, again if it has left already."""
    ladder, again = np.cumsum(prior), np.arange(len(gone))
    drawn = np.zeros(len(gone), dtype=np.int64)
    for _ in range(REDRAWS):
        drawn[again] = np.searchsorted(ladder, rng.random(len(again)) * ladder[-1], side="right")
        again = np.flatnonzero((gone == drawn[:, None]).any(axis=1))
    # The clients that left had nearly all the chance in these trials: draw among the others directly.
    for trial in again:
        left = prior.copy()
        left[gone[trial]] = 0
        rest = np.cumsum(left)
        drawn[trial] = np.searchsorted(rest, rng.random() * rest[-1], side="right")
    return drawn
