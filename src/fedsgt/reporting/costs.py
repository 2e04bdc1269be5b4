"""What a run's training cost, and what it asks of a client: numbers only.

How long an update took stands in the run's metrics, not in the manifests, which have no clock. Those lines go
with their modules when a deletion hits them, so only the modules that are there have a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fedsgt.engine.flower.traffic import Traffic
from fedsgt.plans.plan import Prefix
from fedsgt.runs.artefacts import metrics_lines
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.runs.traffic import paper_rounds, read_traffic
from fedsgt.store import StoreError
from fedsgt.theory import client_rounds_independent

MEANS = ("messages", "modules", "down", "up")
LONGEST = 1e9  # seconds of an update that are believed


@dataclass(frozen=True)
class TrainingTime:
    """A module's training: records that were trained on, each round counted, and the workers' seconds."""

    records: int
    seconds: float


@dataclass(frozen=True)
class ModuleTotals:
    """Some modules of a plan; records and seconds are those of the timed ones."""

    modules: int
    timed: int
    records: int
    seconds: float


@dataclass(frozen=True)
class LineFit:
    """Seconds of a module as a straight line over its records, by least squares."""

    start: float
    a_record: float
    explained: float
    """R squared: the share of the differences between modules that the line explains."""


@dataclass(frozen=True)
class PerClient:
    """What the plan asks of a client in one whole training, each module on its own, over all clients."""

    rounds: float
    least_rounds: int
    most_rounds: int
    fetched: float
    """Frozen modules that it gets, each once."""
    module_bytes: int | None
    """None if no module is there to be measured."""
    paper_rounds: float | None
    """The paper's formula; none where it does not say anything."""
    corrected_rounds: float | None
    """The same for balanced groups, whose slices are not independent."""

    @property
    def down(self) -> float | None:
        """Bytes to a client: what each round starts from, and the frozen modules below."""
        return None if self.module_bytes is None else (self.rounds + self.fetched) * self.module_bytes

    @property
    def up(self) -> float | None:
        return None if self.module_bytes is None else self.rounds * self.module_bytes


@dataclass(frozen=True)
class Costs:
    """Of the run as its plan wants it, with the times of what is there."""

    modules: int
    passes: float
    """Over the whole data, in each local epoch; all rounds counted."""
    depths: list[ModuleTotals]
    sequences: list[ModuleTotals]
    """A module that several share counts for the first of them."""
    times: dict[Prefix, TrainingTime] = field(repr=False)
    line: LineFit | None
    per_client: PerClient
    traffic: Traffic | None
    """What was measured, if anything went over a network."""

    @property
    def whole(self) -> ModuleTotals:
        """Each module once."""
        return _totals(self.modules, list(self.times.values()))

    @property
    def a_sequence(self) -> float | None:
        """Mean seconds; none if not every module has a time."""
        whole = self.whole
        return whole.seconds / len(self.sequences) if whole.timed == whole.modules else None

    def to_json(self) -> dict[str, Any]:
        """For programs; null stands for unknown."""
        planned, carried = self.per_client, self.traffic
        return {
            "modules": self.modules,
            "passes": self.passes,
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
    """Of this state of the run, with the modules that are there."""
    about, rounds = live.description, folder.config.training.rounds
    plan, there = about.plan_made(), set(present)
    known = times_of(folder, there, rounds)
    times = {prefix: known[key] for prefix, key in about.keys.items() if key in known}
    return Costs(
        modules=len(plan.modules),
        passes=plan.passes * rounds,
        depths=_by_depth(about, times),
        sequences=_by_sequence(about, times),
        times=times,
        line=fit_line(list(times.values())),
        per_client=_per_client(folder, about, rounds, [entry.key for entry in live.modules()], there),
        traffic=read_traffic(folder),
    )


def times_of(folder: RunFolder, keys: set[str], rounds: int) -> dict[str, TrainingTime]:
    """By module, from the metrics; not for modules of which a round is missing there."""
    updates: dict[str, dict[tuple[int, str], TrainingTime]] = {}
    for line, key in metrics_lines(folder):
        if key is not None and key in keys and (update := _update(line)) is not None:
            place, timed = update
            updates.setdefault(key, {})[place] = timed  # a round that was begun anew counts once
    return {
        key: TrainingTime(
            sum(one.records for one in found.values()), sum(one.seconds for one in found.values())
        )
        for key, found in updates.items()
        if len({number for number, _ in found}) == rounds
    }


def _update(line: bytes) -> tuple[tuple[int, str], TrainingTime] | None:
    """A line of one client's update, with its round; remote clients write their own numbers there."""
    told = json.loads(line)
    try:
        if told["event"] != "update":
            return None
        records, seconds = int(told["records"]), float(told["seconds"])
        place = int(told["step"]), str(told["client"])
    except (KeyError, TypeError, ValueError):
        return None
    return (place, TrainingTime(records, seconds)) if 0 <= seconds < LONGEST else None


def fit_line(times: Sequence[TrainingTime]) -> LineFit | None:
    """None if fewer than two different numbers of records are known."""
    x = np.array([one.records for one in times], dtype=np.float64)
    y = np.array([one.seconds for one in times])
    if len(set(x.tolist())) < 2:
        return None
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    start = float(y.mean() - slope * x.mean())
    left, all_of_it = float(((y - start - slope * x) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
    return LineFit(start, slope, 1 - left / all_of_it if all_of_it else 1.0)


def _by_depth(about: Description, times: Mapping[Prefix, TrainingTime]) -> list[ModuleTotals]:
    deepest = max(map(len, about.keys))
    return [_sum((path for path in about.keys if len(path) == n), times) for n in range(1, deepest + 1)]


def _by_sequence(about: Description, times: Mapping[Prefix, TrainingTime]) -> list[ModuleTotals]:
    seen: set[Prefix] = set()
    found = []
    for order in about.sequences:
        path = [tuple(order[:depth]) for depth in range(1, len(order) + 1)]
        found.append(_sum([prefix for prefix in path if prefix not in seen], times))
        seen.update(path)
    return found


def _sum(paths: Iterable[Prefix], times: Mapping[Prefix, TrainingTime]) -> ModuleTotals:
    every = list(paths)
    return _totals(len(every), [times[path] for path in every if path in times])


def _totals(modules: int, timed: Sequence[TrainingTime]) -> ModuleTotals:
    seconds = sum(one.seconds for one in timed)
    return ModuleTotals(modules, len(timed), sum(one.records for one in timed), float(seconds))


def _per_client(
    folder: RunFolder, about: Description, rounds: int, live: Iterable[str], present: set[str]
) -> PerClient:
    counts = np.zeros((len(about.clients), about.groups), dtype=np.int64)
    for number, (client, groups) in enumerate(zip(about.clients, about.groups_of, strict=True)):
        np.add.at(counts[number], groups, [records > 0 for records in client.records])
    plan = about.plan_made()
    joined = plan.client_rounds(counts) * rounds
    # Where sequences share modules, their rounds are fewer than the formula's.
    alone = len(plan.modules) == sum(map(len, about.sequences))
    corrected = paper_rounds(about, rounds) if alone else None
    return PerClient(
        rounds=float(joined.mean()),
        least_rounds=int(joined.min()),
        most_rounds=int(joined.max()),
        fetched=float(plan.client_downloads(counts).mean()),
        module_bytes=_module_bytes(folder, (key for key in live if key in present)),
        paper_rounds=None if corrected is None else _formula(about) * rounds,
        corrected_rounds=corrected,
    )


def _formula(about: Description) -> float:
    """As printed: a client's slices pick their groups independently."""
    slices = len(about.clients[0].slices)
    return float(client_rounds_independent(about.groups, slices, len(about.sequences)))


def _module_bytes(folder: RunFolder, keys: Iterable[str]) -> int | None:
    """Of any module that can be read: all are of one size."""
    for key in keys:
        try:
            return sum(tensor.nbytes for tensor in folder.modules.get(key).values())
        except StoreError:
            continue
    return None
