"""Compare a run with others: a row of numbers for each. The run's folder remembers which others."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedsgt.config import Config
from fedsgt.errors import InputError
from fedsgt.plans.scoring.live_part import chance_alive
from fedsgt.reporting.costs import Costs, run_costs
from fedsgt.reporting.heads import solved_heads_answer
from fedsgt.reporting.history import count_live
from fedsgt.runs.artefacts import COMPARED
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.health import module_health
from fedsgt.runs.records_left import Chances, request_chances
from fedsgt.runs.state import Live
from fedsgt.serving.accuracy import Accuracy
from fedsgt.serving.evaluation import current_evaluation
from fedsgt.serving.heads import solves
from fedsgt.store import Folder
from fedsgt.words import counted

AHEAD = (10, 20)  # numbers of further requests whose survival is compared


@dataclass(frozen=True)
class ComparedRun:
    """The numbers of one run."""

    path: Path
    system: str
    """System that the run trains, in words."""
    accuracy: Accuracy | None
    """Accuracy as served, with its interval; None if what is live now was not evaluated."""
    test_records: int | None
    modules: int
    live_modules: int
    passes: float
    forward_passes: float
    """Forward passes over the data, for the statistics from which heads are solved."""
    seconds: float
    """Workers' time, summed over the modules that have one."""
    timed_modules: int
    rounds_per_client: float
    requests: int
    """Number of requests so far."""
    until_exhausted: float
    """Expected number of requests of a fresh run, up to and with the one that leaves nothing.

    Infinite if its heads are solved: something answers while a record is left.
    """
    alive: list[float]
    """Chances that something is served after so many further requests as `AHEAD` says."""
    test: frozenset[str] = field(repr=False)
    """Names of the files that hold what was computed from test records: other records, other names."""
    backbone: str = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers for programs; null stands for infinite or unknown."""
        # Names of files mean nothing outside the run, and JSON has no infinity.
        told = {name: value for name, value in asdict(self).items() if name != "test"}
        rate = self.until_exhausted
        return {**told, "path": str(self.path), "until_exhausted": rate if math.isfinite(rate) else None}


@dataclass(frozen=True)
class Comparison:
    """The numbers of this run first, then those of the others in the order given."""

    rows: list[ComparedRun]
    left_out: list[str]
    """Reasons why remembered runs are not shown."""

    def names(self) -> list[str]:
        """Return the names of the runs' folders, or their whole paths if two names are the same."""
        short = [row.path.name for row in self.rows]
        return short if len(set(short)) == len(short) else [str(row.path) for row in self.rows]

    @property
    def unmeasured(self) -> bool:
        """Whether a run serves something that was not evaluated."""
        return any(row.accuracy is None and row.live_modules for row in self.rows)

    @property
    def test_sizes(self) -> list[int]:
        """Numbers of test records that the runs were evaluated on."""
        return sorted({row.test_records for row in self.rows if row.accuracy and row.test_records})

    def unlike(self, row: ComparedRun) -> list[str]:
        """Return the reasons why the run's accuracy cannot be compared with the first run's."""
        first, found = self.rows[0], list[str]()
        if row.accuracy is not None and first.accuracy is not None and row.test != first.test:
            found.append("other test records")
        if row.backbone != first.backbone:
            found.append("another backbone")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the comparison for programs."""
        rows = [{**row.to_json(), "not_comparable": self.unlike(row)} for row in self.rows]
        return {"runs": rows, "left_out": self.left_out}


@dataclass(frozen=True)
class OtherRuns:
    """Runs to compare with."""

    folders: list[RunFolder]
    left_out: list[str]
    """Reasons why remembered runs are missing here."""


def named_runs(folder: RunFolder, paths: Iterable[Path]) -> OtherRuns:
    """Open the runs that somebody named; a run that is missing, or is the run itself, is an error."""
    found = {path.resolve(): path for path in paths}  # a dict, so that a run named twice is shown once
    if folder.path.resolve() in found:
        raise InputError(
            f"{found[folder.path.resolve()]}: the run itself; give other runs to compare it with"
        )
    return OtherRuns([_opened(path) for path in found.values()], [])


def remembered_runs(folder: RunFolder) -> OtherRuns:
    """Open the runs that were named last; a run that is gone is left out."""
    folders, left_out = list[RunFolder](), list[str]()
    for path in _read(folder):
        try:
            folders.append(_opened(path))
        # A run that was moved since must not keep the report from being made; the page says that it is
        # missing.
        except InputError as error:
            left_out.append(str(error))
    return OtherRuns(folders, left_out)


def remember_runs(folder: RunFolder, others: OtherRuns) -> None:
    """Write which runs to compare with, for the next report."""
    # Absolute, since the next report may be made from another folder.
    paths = [str(other.path.resolve()) for other in others.folders]
    Folder(folder.path).write(COMPARED, (json.dumps(paths, indent=1) + "\n").encode())


def _opened(path: Path) -> RunFolder:
    folder = open_run(path)
    folder.live()  # reads the ledger: without it nobody knows what is live
    return folder


def _read(folder: RunFolder) -> list[Path]:
    file = folder.path / COMPARED
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read ({error}); it may be removed") from None
    if not isinstance(told, list) or not all(isinstance(path, str) for path in told):
        raise InputError(f"{file}: not a list of folders; it may be removed")
    return [Path(path) for path in told]


def compare(folder: RunFolder, live: Live, own: Costs, others: OtherRuns) -> Comparison | None:
    """Return the comparison; None if there is no other run, and none was left out."""
    if not others.folders and not others.left_out:
        return None
    rows = [_row(folder, live, own), *(_measured(other) for other in others.folders)]
    return Comparison(rows, others.left_out)


def _measured(folder: RunFolder) -> ComparedRun:
    live = folder.live()
    return _row(folder, live, run_costs(folder, live, module_health(folder, live).whole))


def _row(folder: RunFolder, live: Live, found: Costs) -> ComparedRun:
    prefixes = module_health(folder, live).prefixes
    evaluation = current_evaluation(folder, live, prefixes)
    # The same chances as in the status, so that the page has one figure for one thing.
    solved = solved_heads_answer(folder, live)
    alive = [1.0] * len(AHEAD) if solved else chance_alive(prefixes, request_chances(live), AHEAD)
    rate = live.description.plan_made().deletion_rate(_fresh_chances(live.description))
    return ComparedRun(
        path=folder.path.resolve(),
        system=system_of(folder.config, live.description),
        accuracy=evaluation.strategies.get(folder.config.serving.strategy) if evaluation else None,
        test_records=evaluation.records if evaluation else None,
        modules=found.modules,
        live_modules=count_live(prefixes).modules or 0,
        passes=found.passes,
        forward_passes=0.0 if found.statistics is None else found.statistics.forward_passes,
        seconds=found.whole.seconds,
        timed_modules=found.whole.timed,
        rounds_per_client=found.per_client.rounds,
        requests=len(live.requests),
        until_exhausted=math.inf if solves(folder.config) else rate,
        alive=[float(chance) for chance in alive],
        test=frozenset([evaluation.test]) if evaluation and evaluation.test else _test_names(folder, live),
        backbone=live.description.backbone,
    )


def system_of(config: Config, description: Description) -> str:
    """Return the name of the system that a run trains, in words."""
    training = config.training
    parts = _isolated(description.sequences)
    cut = f" in {parts} isolated parts" if parts > 1 else ""
    again = config.unlearning.retrain
    return (
        f"{counted(description.groups, 'group')} ({description.grouping}){cut}, "
        f"{counted(len(description.sequences), 'sequence')} ({description.plan}), "
        f"{counted(training.rounds, 'round')} a module with {counted(training.epochs, 'epoch')} each, "
        f"{peft_in_words(config)}" + ("" if again == "never" else f", retrain {again}")
    )


def peft_in_words(config: Config) -> str:
    """Return the kind of the modules, such as "lora of rank 8"."""
    return config.peft.kind + (f" of rank {config.peft.rank}" if config.peft.kind == "lora" else "")


def _isolated(sequences: Iterable[Sequence[int]]) -> int:
    """Count the parts into which the groups fall if no sequence may cross from one part to another."""
    # Each sequence joins all parts that it touches into one.
    parts: list[set[int]] = []
    for order in sequences:
        joined = set(order).union(*(part for part in parts if not part.isdisjoint(order)))
        parts = [*(part for part in parts if part.isdisjoint(order)), joined]
    return len(parts)


def _fresh_chances(description: Description) -> Chances | None:
    """Return the chance of each group to be hit in a fresh run: its share of the records described.

    None if there are no records: then the plan's own, equal chances hold.
    """
    records = np.zeros(description.groups)
    for client, groups in zip(description.clients, description.groups_of, strict=True):
        np.add.at(records, list(groups), client.records)
    return records / records.sum() if records.any() else None


def _test_names(folder: RunFolder, live: Live) -> frozenset[str]:
    """Return the names of the files that an evaluation keeps beside the live modules."""
    keys = {entry.key for entry in live.modules()}
    names = (name.split("/") for name in folder.modules.objects.names("modules/"))
    return frozenset(name for _, key, name in names if key in keys and name.startswith("test-"))
