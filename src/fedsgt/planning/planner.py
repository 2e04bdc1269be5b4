"""What a plan would cost and how long it would serve, before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsgt.planning.stream import Counts, Stream, group_prior, run_stream
from fedsgt.plans import Estimate, Plan, check_prior
from fedsgt.plans.scoring.montecarlo import Curves


@dataclass(frozen=True)
class Traffic:
    """What one client sends and fetches over a whole training, averaged over the clients."""

    rounds: float
    least_rounds: int
    most_rounds: int
    modules_up: float
    modules_down: float


@dataclass(frozen=True)
class Forecast:
    """One setting, scored: service over the stream, cost, traffic and storage."""

    plan: Plan
    stream: Stream
    curves: Curves
    deletion_rate: float
    deletion_rate_clients: Estimate | None
    traffic: Traffic
    module_bytes: int
    fedavg_rounds: int

    @property
    def live_share(self) -> list[float]:
        """Expected share of the data behind the longest live prefix, after each request."""
        return [live / self.plan.groups for live in self.curves.live]

    @property
    def mean_live_share(self) -> float:
        """Its mean over the stream, from the first request on."""
        after = self.live_share[1:] or self.live_share
        return sum(after) / len(after)

    @property
    def fedretrain_passes(self) -> int:
        """FedAvg once, and again after each request."""
        return self.fedavg_rounds * (1 + self.stream.requests)

    @property
    def break_even(self) -> int:
        """The request from which on retraining each time has cost more than this plan."""
        return max(0, floor(self.plan.passes / self.fedavg_rounds - 1 + 1e-9) + 1)

    def to_json(self) -> dict[str, Any]:
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
            "deletion_rate_clients_stderr": getattr(self.deletion_rate_clients, "stderr", None),
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


def forecast(
    plan: Plan, counts: Counts, stream: Stream, module_bytes: int = 2_400_000, fedavg_rounds: int = 10
) -> Forecast:
    """Score a plan for clients whose slices lie in groups as `counts` (clients x groups) says."""
    prior = None if stream.prior is None else check_prior(stream.prior, len(counts), "client")
    curves = run_stream(plan, counts, stream)
    return Forecast(
        plan,
        stream,
        curves,
        plan.deletion_rate(group_prior(counts, prior)),
        _rate_of_clients(plan, counts, stream) if stream.whole_clients else None,
        _traffic(plan, counts),
        module_bytes,
        fedavg_rounds,
    )


def _rate_of_clients(plan: Plan, counts: Counts, stream: Stream) -> Estimate:
    """The deletion rate if all requests were whole clients; infinite if those who may leave spare a root."""
    leaving = len(counts) if stream.prior is None else sum(chance > 0 for chance in stream.prior)
    curves = run_stream(plan, counts, Stream(leaving, leaving, stream.prior))
    return Estimate(float("inf")) if curves.alive[-1] > 0 else curves.rate


def _traffic(plan: Plan, counts: Counts) -> Traffic:
    """A round brings down what it starts from and sends it up trained; frozen modules come down once each."""
    rounds: NDArray[np.int64] = plan.client_rounds(counts)
    fetched = plan.client_downloads(counts)
    return Traffic(
        float(rounds.mean()),
        int(rounds.min()),
        int(rounds.max()),
        float(rounds.mean()),
        float((rounds + fetched).mean()),
    )


def _finite(value: float | None) -> float | None:
    """JSON knows no infinity."""
    return value if value is not None and np.isfinite(value) else None
