"""Score a plan before anything is trained: how long it would serve, and what it would cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsgt.planning.stream import Counts, Stream, group_prior, run_stream
from fedsgt.plans import Estimate, Plan, check_prior
from fedsgt.plans.scoring.montecarlo import Curves
from fedsgt.plans.scoring.whole_clients import clients_withstood


@dataclass(frozen=True)
class ExpectedTraffic:
    """Rounds and modules of one client over a whole training."""

    rounds: float
    """Mean number of rounds that a client takes part in."""
    least_rounds: int
    most_rounds: int
    modules_up: float
    """Mean number of modules that a client sends."""
    modules_down: float
    """Mean number of modules that a client fetches."""


@dataclass(frozen=True)
class PlanScore:
    """Service of a plan over a stream of requests, with its cost, traffic and storage."""

    plan: Plan
    stream: Stream
    curves: Curves
    """Service after each request of the stream."""
    deletion_rate: float
    """Expected requests up to the exhausting one, if all are for single slices."""
    deletion_rate_clients: Estimate
    """Expected clients up to the exhausting one, if clients leave whole, one after another."""
    traffic: ExpectedTraffic
    module_bytes: int
    """Size of one module."""
    fedavg_rounds: int
    """Rounds of FedAvg that the cost is compared with."""

    @property
    def live_share(self) -> list[float]:
        """Expected share of the data behind the longest live prefix, after each request."""
        return [live / self.plan.groups for live in self.curves.live]

    @property
    def mean_live_share(self) -> float:
        """Mean of `live_share` over the stream, from the first request on."""
        # A stream without requests has only the value before the first.
        after = self.live_share[1:] or self.live_share
        return sum(after) / len(after)

    @property
    def fedretrain_passes(self) -> int:
        """Passes of FedRetrain: FedAvg once, and again after each request."""
        return self.fedavg_rounds * (1 + self.stream.requests)

    @property
    def break_even(self) -> int:
        """Number of requests after which retraining each time has cost more than this plan."""
        # FedRetrain costs T (1 + r) passes after r requests; the tolerance forgives rounding at equality.
        return max(0, floor(self.plan.passes / self.fedavg_rounds - 1 + 1e-9) + 1)

    def to_json(self) -> dict[str, Any]:
        """Return the score as `fedsgt plan --json` prints it."""
        plan, curves, traffic = self.plan, self.curves, self.traffic
        return {
            "plan": {
                "kind": plan.kind,
                "groups": plan.groups,
                "sequences": [list(path) for path in plan.sequences],
                "modules": len(plan.modules),
                "roots": list(plan.roots),
            },
            "stream": {"requests": self.stream.requests, "whole_clients": self.stream.whole_clients},
            "survival": [float(value) for value in curves.alive],
            "survival_stderr": [value.stderr for value in curves.alive],
            "live_groups": [float(value) for value in curves.live],
            "live_groups_stderr": [value.stderr for value in curves.live],
            "live_share": self.live_share,
            "mean_live_share": self.mean_live_share,
            "deletion_rate": _finite(self.deletion_rate),
            "deletion_rate_clients": _finite(self.deletion_rate_clients),
            "deletion_rate_clients_stderr": self.deletion_rate_clients.stderr,
            "cost": {
                "passes": plan.passes,
                "fedavg_passes": self.fedavg_rounds,
                "fedretrain_passes": self.fedretrain_passes,
                "break_even_requests": self.break_even,
            },
            "per_client": {
                "rounds": traffic.rounds,
                "least_rounds": traffic.least_rounds,
                "most_rounds": traffic.most_rounds,
                "upload_bytes": traffic.modules_up * self.module_bytes,
                "download_bytes": traffic.modules_down * self.module_bytes,
            },
            "storage_bytes": len(plan.modules) * self.module_bytes,
        }


def score_plan(
    plan: Plan, counts: Counts, stream: Stream, module_bytes: int = 2_400_000, fedavg_rounds: int = 10
) -> PlanScore:
    """Score a plan; `counts` has the slices of each client (row) in each group (column)."""
    prior = None if stream.prior is None else check_prior(stream.prior, len(counts), "client")
    curves = run_stream(plan, counts, stream)
    return PlanScore(
        plan,
        stream,
        curves,
        plan.deletion_rate(group_prior(counts, prior)),
        clients_withstood(plan.roots, counts, prior),
        _traffic(plan, counts),
        module_bytes,
        fedavg_rounds,
    )


def _traffic(plan: Plan, counts: Counts) -> ExpectedTraffic:
    """Count modules: each round fetches one and sends one, and each frozen module is fetched once."""
    rounds: NDArray[np.int64] = plan.client_rounds(counts)
    # A round starts from a module that is fetched and ends with one that is sent.
    fetched = plan.client_downloads(counts)
    return ExpectedTraffic(
        float(rounds.mean()),
        int(rounds.min()),
        int(rounds.max()),
        float(rounds.mean()),
        float((rounds + fetched).mean()),
    )


def _finite(value: float) -> float | None:
    """Replace infinity by None, because JSON has no infinity."""
    return value if np.isfinite(value) else None
