"""Means over seeds with confidence intervals; small samples, so Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import t as student

LEVEL = 0.95


@dataclass(frozen=True)
class Mean:
    """Mean over independent seeds, and the half width of its 95 % interval."""

    value: float
    half: float
    count: int

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half

    def text(self, scale: float = 100, digits: int = 1) -> str:
        """Return a text such as `78.3 ± 1.2`; a single seed has no interval."""
        number = f"{self.value * scale:.{digits}f}"
        return number if self.count < 2 else f"{number} ± {self.half * scale:.{digits}f}"


def mean_of(values: Sequence[float]) -> Mean:
    numbers = np.asarray(values, dtype=np.float64)
    count = len(numbers)
    if count < 2:
        return Mean(float(numbers.mean()) if count else float("nan"), float("nan"), count)
    error = float(numbers.std(ddof=1)) / sqrt(count)
    return Mean(float(numbers.mean()), float(student.ppf((1 + LEVEL) / 2, count - 1)) * error, count)


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Mean:
    """Return the mean difference of pairs: for each seed, both had the same data and requests."""
    return mean_of([one - other for one, other in zip(ours, theirs, strict=True)])
