"""Result of a comparison: accuracy after each request, for several systems and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsgt.api.results.shown import table
from fedsgt.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

SHOWN_AFTER = (1, 5, 10)  # requests after which the short table shows accuracies, besides the last
COLUMNS = (
    "system",
    "seed",
    "request",
    "accuracy",
    "low",
    "high",
    "served",
    "accuracy_or_chance",
    "live_modules",
    "seconds",
    "passes",
    "forward",
)


@dataclass(frozen=True)
class Point:
    """One system and seed after so many requests; request 0 is before the first."""

    system: str
    seed: int
    request: int
    accuracy: float | None
    """Accuracy on the test records, with its 95 % interval; None if nothing is served."""
    low: float | None
    high: float | None
    live_modules: int
    seconds: float
    """Time of the training before the first request, or of the deletion with its retraining; scoring apart.

    After an interruption it is that of the rest.
    """
    passes: float
    """Training that this step took, in passes over the data."""
    groups: tuple[int, ...] = ()
    """Groups of the system that the request hit."""
    forward: float = 0.0
    """Forward passes over the data that this step took for statistics, from which heads are solved."""

    @property
    def served(self) -> bool:
        """Whether anything is served."""
        return self.accuracy is not None

    def to_json(self) -> dict[str, Any]:
        """Return the point for programs."""
        return asdict(self) | {"groups": list(self.groups)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Point:
        """Return the point that `to_json` gave these values for."""
        return cls(**{**values, "groups": tuple(values["groups"])})


@dataclass(frozen=True)
class Mean:
    """Mean over seeds, and half the width of its 95 % interval (Student's t); one seed has no interval."""

    value: float
    half: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Return the mean of these values; of none, a value that is no number."""
        count = len(values)
        value = sum(values) / count if count else nan
        if count < 2:
            return cls(value, nan, count)
        from scipy.stats import t as student

        error = sqrt(sum((one - value) ** 2 for one in values) / (count - 1) / count)
        return cls(value, float(student.ppf(0.975, count - 1)) * error, count)

    def bounds(self) -> tuple[float, float]:
        """Return the interval of an accuracy, which is at least 0 and at most 1; NaN for one seed."""
        if self.count < 2:
            return nan, nan
        return max(0.0, self.value - self.half), min(1.0, self.value + self.half)

    def percent(self) -> str:
        """Return "91.2 ± 1.3", or "91.2" for one seed."""
        return f"{100 * self.value:.1f}" + (f" ± {100 * self.half:.1f}" if self.count > 1 else "")


@dataclass(frozen=True, repr=False)
class Comparison:
    """Accuracy of several systems under the same deletion requests, for one or more seeds."""

    systems: tuple[str, ...]
    seeds: tuple[int, ...]
    stream: str
    """Kind of requests: slices, clients, records, or given."""
    requests: int
    """Number of requests of the longest stream."""
    chance: float
    """Accuracy of a guess among the labels."""
    points: tuple[Point, ...]
    output: Path | None = None
    """Folder with the runs and the results; None if it was not to be kept."""

    @property
    def frame(self) -> DataFrame:
        """All points as a pandas DataFrame, a row for each system, seed and request.

        `accuracy` is NaN where nothing is served; `accuracy_or_chance` has the accuracy of a guess there.
        """
        rows = [
            {**asdict(point), "served": point.served, "accuracy_or_chance": self._or_chance(point)}
            for point in self.points
        ]
        frame = _pandas().DataFrame(rows, columns=list(COLUMNS))
        return frame.astype({"accuracy": float, "low": float, "high": float})

    def summary(self) -> DataFrame:
        """Return means over seeds with 95 % intervals, as a DataFrame by system and request.

        `accuracy`, `low` and `high` are of the seeds that are still served, `served` is their share.
        """
        rows = []
        for system in self.systems:
            for request in range(self.requests + 1):
                mean, share = self.accuracy_after(system, request)
                either = Mean.of([self._or_chance(point) for point in self._at(system, request)])
                rows.append((system, request, mean.value, *mean.bounds(), share, either.value))
        columns = ["system", "request", "accuracy", "low", "high", "served", "accuracy_or_chance"]
        return _pandas().DataFrame(rows, columns=columns)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw accuracy against requests, a line for each system; write it to a file if a path is given."""
        from fedsgt.api.results.comparison_plot import draw

        return draw(self, None if path is None else Path(path))

    def accuracy_after(self, system: str, request: int) -> tuple[Mean, float]:
        """Return the mean accuracy of the seeds that are served after so many requests, and their share."""
        points = self._at(system, request)
        served = [point.accuracy for point in points if point.accuracy is not None]
        return Mean.of(served), len(served) / len(points) if points else 0.0

    def mean_accuracy(self, system: str) -> Mean:
        """Return the mean over all requests and seeds; no service counts as a guess."""
        by_seed = [
            [self._or_chance(point) for point in self.points if (point.system, point.seed) == (system, seed)]
            for seed in self.seeds
        ]
        return Mean.of([sum(values) / len(values) for values in by_seed if values])

    def withstood(self, system: str) -> Mean:
        """Return the mean number of requests after which the system served, up to the first that ended it."""
        found = []
        for seed in self.seeds:
            own = [point for point in self.points if (point.system, point.seed) == (system, seed)]
            ended = next((point.request for point in own if not point.served), len(own))
            found.append(float(max(0, ended - 1)))
        return Mean.of(found)

    def passes(self, system: str) -> Mean:
        """Return the mean training cost of all steps together, in passes over the data."""
        totals = dict.fromkeys(self.seeds, 0.0)
        for point in self.points:
            if point.system == system:
                totals[point.seed] += point.passes
        return Mean.of(list(totals.values()))

    def forward(self, system: str) -> float:
        """Return the mean number of forward passes over the data for statistics, of all steps together."""
        own = [point.forward for point in self.points if point.system == system]
        return sum(own) / len(self.seeds)

    def overview(self) -> tuple[list[str], list[list[str]]]:
        """Return the short table: its headers, and a row of texts for each system."""
        after = sorted({number for number in SHOWN_AFTER if number < self.requests} | {self.requests})
        headers = ["system", "before", *(f"after {number}" for number in after), "mean", "served", "passes"]
        # Three of them take about as long as an epoch of training.
        forward = any(point.forward for point in self.points)
        headers += ["forward"] if forward else []
        rows = [
            [
                system,
                *(self._accuracy_text(system, number) for number in (0, *after)),
                self.mean_accuracy(system).percent(),
                self._served_text(system),
                f"{self.passes(system).value:.1f}",
                *([f"{self.forward(system):.1f}"] if forward else []),
            ]
            for system in self.systems
        ]
        return headers, rows

    def to_json(self) -> dict[str, Any]:
        """Return the comparison for programs."""
        return {
            "systems": list(self.systems),
            "seeds": list(self.seeds),
            "stream": self.stream,
            "requests": self.requests,
            "chance": self.chance,
            "points": [
                point.to_json() | {"served": point.served, "accuracy_or_chance": self._or_chance(point)}
                for point in self.points
            ],
        }

    def __repr__(self) -> str:
        means = ", ".join(f"{system} {self.mean_accuracy(system).percent()} %" for system in self.systems)
        return f"<Comparison over {self.about()}: mean accuracy {means}>"

    def _repr_html_(self) -> str:
        headers, rows = self.overview()
        return table(headers, rows, f"accuracy in percent over {self.about()}")

    def about(self) -> str:
        """Return what was compared, such as "10 requests (slices), 3 seeds"."""
        return f"{counted(self.requests, 'request')} ({self.stream}), {counted(len(self.seeds), 'seed')}"

    def _at(self, system: str, request: int) -> list[Point]:
        return [point for point in self.points if (point.system, point.request) == (system, request)]

    def _or_chance(self, point: Point) -> float:
        return self.chance if point.accuracy is None else point.accuracy

    def _accuracy_text(self, system: str, request: int) -> str:
        mean, share = self.accuracy_after(system, request)
        if not mean.count:
            return "none"
        return mean.percent() + ("" if share == 1 else f" ({mean.count} of {len(self.seeds)})")

    def _served_text(self, system: str) -> str:
        found = self.withstood(system)
        if found.value == self.requests:
            return "to the end"
        number = f"{found.value:g}" if found.value == int(found.value) else f"{found.value:.1f}"
        return f"{number} of {self.requests}"


def _pandas() -> Any:
    from fedsgt.files.optional import require

    return require("pandas")
