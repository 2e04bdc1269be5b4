"""Runs of an experiment: configured from a task and a seed, trained once, and predicted with once."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness.places import placed
from experiments.harness.settings import task_file
from experiments.harness.sharing import Shared
from fedsgt.build.train import check_participation, train
from fedsgt.config import Config, load, to_toml
from fedsgt.config.systems import SYSTEMS
from fedsgt.engine.events import ignore
from fedsgt.plans import Plan
from fedsgt.plans.selection import live_prefix
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import load_test
from fedsgt.serving.evaluation import probabilities_of_test_records, score

Prefix = tuple[int, ...]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Bench:
    """Folder of runs, so that experiments share their trainings and go on after a stop."""

    work: Path

    def config(
        self,
        task: str,
        seed: int,
        system: str = "fedsgt",
        partition: str | None = None,
        overrides: Sequence[str] = (),
        shared: bool = True,
    ) -> Config:
        """Return the configuration of the task under this system, with one seed for everything.

        With `shared`, equal modules of other runs of this task and seed are taken from a common store; a run
        that deletes must have its own.
        """
        file = task_file(task)
        # One process with one thread: several runs go side by side instead.
        common = [
            "engine.workers=0",
            *(f"{section}.seed={seed}" for section in ("data", "grouping", "training")),
        ]
        if partition is not None:
            common.append(f"data.partition={partition}")
        chosen = list(SYSTEMS[system].overrides)
        if system.startswith("fed"):  # the same slices under every system, so that requests mean the same
            chosen.append(f"grouping.slices={load(file).grouping.slices}")
        # The paper's systems answer with trained heads; an experiment that wants others asks for them.
        run = placed(load(file, ["heads.solve=false", *common, *chosen, *overrides]))
        if not shared:
            return run
        store = (self.work / "stores" / lane(task, seed)).resolve()
        return run.model_copy(update={"store": run.store.model_copy(update={"url": f"file://{store}"})})

    def trained(self, run: Config, anew: bool = False) -> Trained:
        """Return the run, trained if it is not yet; with `anew`, a fresh one that the caller may change."""
        code = hashlib.sha256(to_toml(run).encode()).hexdigest()[:16]
        path = self.work / "runs" / code
        if anew and path.exists():
            rmtree(path)
        folder = train(run, path, ignore, access=Shared(self.work / "activations"))
        check_participation(folder)
        return Trained(folder)


def lane(task: str, seed: int) -> str:
    """Return the lane: runs of one lane share a store, and may not be trained side by side."""
    return f"{task.replace('/', '-')}-{seed}"


@dataclass(frozen=True)
class Trained:
    """A trained run, and the predictions of the test records by each of its modules."""

    folder: RunFolder
    predicted: dict[Prefix, Floats] = field(default_factory=dict, repr=False)

    @cached_property
    def plan(self) -> Plan:
        return self.folder.description.plan_made()

    @cached_property
    def labels(self) -> tuple[int, ...]:
        return load_test(self.folder.config, self.folder.description.labels).labels

    @property
    def groups_of(self) -> list[list[int]]:
        """Return the group of each slice, by client."""
        return self.folder.description.groups_of

    def accuracy(
        self,
        dead: Collection[int] = (),
        strategy: str = "all",
        sequences: Iterable[Sequence[int]] | None = None,
    ) -> float | None:
        """Return the accuracy, as served, once these groups are hit; None if the run is exhausted."""
        orders = self.plan.sequences if sequences is None else sequences
        prefixes = [live_prefix(order, dead) for order in orders]
        self.predict(prefixes)
        found = score(strategy, self.predicted, prefixes, self.labels)
        return None if found is None else found.accuracy

    def predict(self, prefixes: Iterable[Prefix]) -> Mapping[Prefix, Floats]:
        missing = {prefix for prefix in prefixes if prefix and prefix not in self.predicted}
        if missing:
            live = self.folder.live()
            found = probabilities_of_test_records(self.folder, live, sorted(missing), _untold)
            self.predicted.update(found)
        return self.predicted

    def predict_all(self) -> Trained:
        """Predict with all modules at once, as every call starts a model."""
        self.predict([module.prefix for module in self.plan.modules])
        return self

    def records(self) -> list[list[int]]:
        """Return the number of records in each slice, by client."""
        return [list(client.records) for client in self.folder.description.clients]

    def group_sizes(self) -> tuple[list[int], list[int]]:
        """Return the number of records of each group, and of its slices that have any."""
        sizes, slices = [0] * self.plan.groups, [0] * self.plan.groups
        for groups, records in zip(self.groups_of, self.records(), strict=True):
            for group, count in zip(groups, records, strict=True):
                sizes[group] += count
                slices[group] += bool(count)
        return sizes, slices


def _untold(share: float) -> None: ...


def described(run: Config) -> dict[str, Any]:
    """Return a run's settings as results keep them, without this machine's paths."""
    values = run.model_dump(mode="json", exclude={"store", "engine", "unlearning", "serving", "privacy"})
    values["data"]["source"] = Path(values["data"]["source"]).name
    values["model"]["backbone"] = Path(values["model"]["backbone"]).name
    return values
