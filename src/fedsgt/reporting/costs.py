"""Costs of a run's training, in all and for each client.

Times come from the run's metrics; manifests have no clock, so that equal modules have equal manifests. The
lines of a module are destroyed with it when a deletion hits it, so only modules that are there have a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fedsgt.config import Config
from fedsgt.engine.flower.traffic import Traffic
from fedsgt.plans.plan import Prefix
from fedsgt.plans.statistics_cost import StatisticsCost
from fedsgt.runs.artefacts import metrics_lines
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.runs.traffic import paper_rounds, read_traffic
from fedsgt.store import StoreError
from fedsgt.theory import client_rounds_independent
from fedsgt.window import Window

MEANS = ("messages", "modules", "down", "up")
LONGEST = 1e9  # seconds; remote clients report their own times, and a longer one cannot be true


@dataclass(frozen=True)
class TrainingTime:
    """Work and time of one module's training, over all rounds."""

    records: int
    """Number of records that an epoch trains on; those of two rounds count twice."""
    seconds: float
    """Seconds of the clients' local updates, summed."""


@dataclass(frozen=True)
class ModuleTotals:
    """Sums over some modules of a plan; records and seconds are those of the timed modules."""

    modules: int
    timed: int
    """Number of the modules that have a time."""
    records: int
    seconds: float


@dataclass(frozen=True)
class LineFit:
    """Straight line through the seconds of modules over their records, by least squares."""

    start: float
    """Seconds that a module takes with no records at all."""
    a_record: float
    """Seconds for each record."""
    explained: float
    """Share of the differences between modules that the line explains (R squared)."""


@dataclass(frozen=True)
class ClientCosts:
    """Rounds and bytes of a client in one whole training, if each module travels alone."""

    rounds: float
    """Mean number of rounds over all clients; an update of a module is a round."""
    least_rounds: int
    most_rounds: int
    fetched: float
    """Mean number of frozen modules that a client receives, each once."""
    module_bytes: int | None
    """Size of one module; None if none is there to be measured."""
    paper_rounds: float | None
    """Rounds by the paper's formula; None if it does not cover this plan or these clients."""
    corrected_rounds: float | None
    """Rounds by the formula for groups of equal size, whose slices are not independent."""

    @property
    def down(self) -> float | None:
        """Mean bytes to a client: the start of each round, and the frozen modules below."""
        return None if self.module_bytes is None else (self.rounds + self.fetched) * self.module_bytes

    @property
    def up(self) -> float | None:
        """Mean bytes from a client: its update in each round."""
        return None if self.module_bytes is None else self.rounds * self.module_bytes


@dataclass(frozen=True)
class Costs:
    """Costs of the whole plan, with the times of the modules that are there."""

    modules: int
    """Number of modules that the plan wants."""
    passes: float
    """Passes over the whole data in each local epoch, over all rounds."""
    depths: list[ModuleTotals]
    """Sums over the modules of each depth, from 1."""
    sequences: list[ModuleTotals]
    """Sums over the modules of each sequence; a shared module counts for the first that has it."""
    times: dict[Prefix, TrainingTime] = field(repr=False)
    line: LineFit | None
    per_client: ClientCosts
    traffic: Traffic | None
    """Messages and bytes that were measured; None if nothing went over a network."""
    statistics: StatisticsCost | None = None
    """Cost of the statistics from which heads are solved; None if the run solves none."""

    @property
    def whole(self) -> ModuleTotals:
        """Sums over all modules, each once."""
        return _totals(self.modules, list(self.times.values()))

    @property
    def a_sequence(self) -> float | None:
        """Mean seconds of a sequence; None if some module has no time."""
        whole = self.whole
        return whole.seconds / len(self.sequences) if whole.timed == whole.modules else None

    def to_json(self) -> dict[str, Any]:
        """Return the costs for programs; null stands for unknown."""
        planned, carried = self.per_client, self.traffic
        return {
            "modules": self.modules,
            "passes": self.passes,
            "statistics": None if self.statistics is None else self.statistics.to_json(),
            "seconds": {
                **asdict(self.whole),
                "per_sequence": self.a_sequence,
                "by_depth": [asdict(part) for part in self.depths],
                "by_sequence": [asdict(part) for part in self.sequences],
                "line": None if self.line is None else asdict(self.line),
            },
            "per_client": {**asdict(planned), "download_bytes": planned.down, "upload_bytes": planned.up},
            "measured": carried
            and {"rounds": carried.rounds, **{name: carried.mean(name) for name in MEANS}},
        }


def run_costs(folder: RunFolder, live: Live, present: Iterable[str]) -> Costs:
    """Return the costs of the run in this state; `present` has the keys of the modules that are there."""
    description, rounds = live.description, folder.config.training.rounds
    plan, there = description.plan_made().with_window(folder.config.training.window), set(present)
    known = _training_times(folder, there, rounds)
    times = {prefix: known[key] for prefix, key in description.keys.items() if key in known}
    return Costs(
        modules=len(plan.modules),
        passes=plan.passes * rounds,
        depths=_by_depth(description, times),
        sequences=_by_sequence(description, times),
        times=times,
        line=fit_line(list(times.values())),
        per_client=_client_costs(folder, description, rounds, [entry.key for entry in live.modules()], there),
        traffic=read_traffic(folder),
        statistics=statistics_cost(folder.config, description),
    )


def statistics_cost(config: Config, description: Description) -> StatisticsCost | None:
    """Return the cost of a run's statistics when nothing is deleted; None if it solves no heads."""
    heads = config.heads
    if not heads.solve:
        return None
    orders = [tuple(order) for order in description.sequences]
    strategy = config.serving.strategy
    return StatisticsCost.of(len(description.modules), orders, heads.when, heads.share, strategy)


def _training_times(folder: RunFolder, keys: set[str], rounds: int) -> dict[str, TrainingTime]:
    """Return the times of the modules of these keys, if the metrics have all rounds of them."""
    updates: dict[str, dict[tuple[int, str], TrainingTime]] = {}
    for line, key in metrics_lines(folder):
        if key is not None and key in keys and (update := _update(line)) is not None:
            place, timed = update
            # A round that was begun anew replaces its first attempt.
            updates.setdefault(key, {})[place] = timed
    return {
        key: TrainingTime(
            records=sum(one.records for one in found.values()),
            seconds=sum(one.seconds for one in found.values()),
        )
        for key, found in updates.items()
        # With a round missing, the sum would pass for the time of a whole training.
        if len({number for number, _ in found}) == rounds
    }


def _update(line: bytes) -> tuple[tuple[int, str], TrainingTime] | None:
    """Return round, client and time from a line of the metrics; None if it is no update or not believable."""
    told = json.loads(line)
    try:
        if told["event"] != "update":
            return None
        # With a window an epoch uses fewer records than the client holds.
        records, seconds = int(told.get("used", told["records"])), float(told["seconds"])
        place = int(told["step"]), str(told["client"])
    except (KeyError, TypeError, ValueError):
        return None
    return (place, TrainingTime(records, seconds)) if 0 <= seconds < LONGEST else None


def fit_line(times: Sequence[TrainingTime]) -> LineFit | None:
    """Fit a line through the times; None if there are fewer than three different numbers of records."""
    x = np.array([one.records for one in times], dtype=np.float64)
    y = np.array([one.seconds for one in times])
    if len(set(x.tolist())) < 3:  # any two points lie on a line, which says nothing
        return None
    # Centred, so that large numbers of records do not cost digits.
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    start = float(y.mean() - slope * x.mean())
    unexplained = float(((y - start - slope * x) ** 2).sum())
    differences = float(((y - y.mean()) ** 2).sum())
    # If all times are equal there is nothing to explain, and the line is perfect.
    return LineFit(start, slope, 1 - unexplained / differences if differences else 1.0)


def _by_depth(description: Description, times: Mapping[Prefix, TrainingTime]) -> list[ModuleTotals]:
    deepest = max(map(len, description.keys), default=0)
    return [_sum((path for path in description.keys if len(path) == n), times) for n in range(1, deepest + 1)]


def _by_sequence(description: Description, times: Mapping[Prefix, TrainingTime]) -> list[ModuleTotals]:
    seen: set[Prefix] = set()
    found = []
    for order in description.sequences:
        path = [tuple(order[:depth]) for depth in range(1, len(order) + 1)]
        # A shared module is trained once, so it counts once, and the sums add up to the whole.
        found.append(_sum([prefix for prefix in path if prefix not in seen], times))
        seen.update(path)
    return found


def _sum(paths: Iterable[Prefix], times: Mapping[Prefix, TrainingTime]) -> ModuleTotals:
    every = list(paths)
    return _totals(len(every), [times[path] for path in every if path in times])


def _totals(modules: int, timed: Sequence[TrainingTime]) -> ModuleTotals:
    seconds = sum(one.seconds for one in timed)
    return ModuleTotals(modules, len(timed), sum(one.records for one in timed), float(seconds))


def _client_costs(
    folder: RunFolder, description: Description, rounds: int, live: Iterable[str], present: set[str]
) -> ClientCosts:
    counts = np.zeros((len(description.clients), description.groups), dtype=np.int64)
    for number, (client, groups) in enumerate(zip(description.clients, description.groups_of, strict=True)):
        # A slice without records takes no part in a round. `add.at` also counts a group that is named twice.
        np.add.at(counts[number], groups, [records > 0 for records in client.records])
    window = folder.config.training.window
    plan = description.plan_made().with_window(window)
    joined = plan.client_rounds(counts) * rounds
    # The formula counts every sequence whole: where sequences share modules, there are fewer rounds.
    alone = len(plan.modules) == sum(map(len, description.sequences))
    corrected = paper_rounds(description, rounds, window) if alone else None
    return ClientCosts(
        rounds=float(joined.mean()),
        least_rounds=int(joined.min()),
        most_rounds=int(joined.max()),
        fetched=float(plan.client_downloads(counts).mean()),
        module_bytes=_module_bytes(folder, (key for key in live if key in present)),
        paper_rounds=None if corrected is None else _formula(description, window) * rounds,
        corrected_rounds=corrected,
    )


def _formula(description: Description, window: Window) -> float:
    """Return the rounds by the formula as printed: a client's slices pick their groups independently."""
    slices = len(description.clients[0].slices)
    return float(client_rounds_independent(description.groups, slices, len(description.sequences), window))


def _module_bytes(folder: RunFolder, keys: Iterable[str]) -> int | None:
    """Return the size of the first module that can be read: all have the same size."""
    for key in keys:
        try:
            return sum(tensor.nbytes for tensor in folder.modules.get(key).values())
        # A damaged module is for the audit to report; another one tells the size as well.
        except StoreError:
            continue
    return None
