"""Cost of the statistics from which heads are solved: forward passes and bytes (definition 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedsgt.plans.plan import Prefix
from fedsgt.plans.selection import choose

EPOCH = 3
"""Forward passes that take about as long as an epoch of training, which goes forward and back."""
BYTES = 8  # of an integer


@dataclass(frozen=True)
class StatisticsCost:
    """Cost of making all statistics of a plan once."""

    chains: int
    """Number of chains that have statistics, the bare backbone among them."""
    forward_passes: float
    """Forward passes over the whole data: one for each chain, if all records are used."""

    @classmethod
    def of(
        cls,
        modules: int,
        sequences: Sequence[Prefix],
        when: str,
        share: float,
        strategy: str,
    ) -> StatisticsCost:
        """Return the cost for all modules, or with `when` as "serve" for the sequences that serve."""
        chains = 1 + (modules if when == "build" else len(choose(strategy, sequences)))
        return cls(chains, chains * share)

    @property
    def training_epochs(self) -> float:
        """Epochs of training, over the whole data, that take about as long."""
        return self.forward_passes / EPOCH

    def bytes(self, clients: int, features: int, labels: int) -> int:
        """Return the size of all statistics of so many clients; the bare backbone has twice the features."""
        bare = statistic_bytes(2 * features, labels)
        return clients * (bare + (self.chains - 1) * statistic_bytes(features, labels))

    def words(self) -> str:
        """Return the cost in words."""
        return passes_words(self.forward_passes)

    def to_json(self) -> dict[str, Any]:
        """Return the cost for programs."""
        return {
            "chains": self.chains,
            "forward_passes": self.forward_passes,
            "training_epochs": self.training_epochs,
        }


def statistic_bytes(features: int, labels: int) -> int:
    """Return the size of one client's statistic under one chain: a triangle, and a column for each label."""
    size = features + 1
    return BYTES * (size * (size + 1) // 2 + size * labels)


def passes_words(forward: float) -> str:
    """Return "37 forward passes over the data, as long as 12.3 epochs of training"."""
    passes = "1 forward pass" if forward == 1 else f"{forward:.3g} forward passes"
    return f"{passes} over the data, as long as {forward / EPOCH:.3g} epochs of training"
