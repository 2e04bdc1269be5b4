"""From a configuration to all that a build needs: records, clients, groups, plan, backbone and targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsgt import grouping, plans
from fedsgt.build.targets import Recipe, Target, make_targets
from fedsgt.config import Run
from fedsgt.data import Client, Columns, Table, load_table, make_clients
from fedsgt.engine.worker import Setup, SliceData
from fedsgt.errors import InputError
from fedsgt.grouping import Grouping
from fedsgt.plans import Plan
from fedsgt.stack import profile
from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.inputs import Inputs, make_inputs
from fedsgt.stack.stack import Stack
from fedsgt.store import Modules


@dataclass(frozen=True)
class Prepared:
    """A run before training."""

    run: Run
    train: Table = field(repr=False)
    test: Table = field(repr=False)
    clients: tuple[Client, ...] = field(repr=False)
    grouping: Grouping
    plan: Plan
    stack: Stack = field(repr=False)
    inputs: Inputs = field(repr=False)
    recipe: Recipe
    targets: tuple[Target, ...] = field(repr=False)

    def setup(self, modules: Modules, cache: Path | None) -> Setup:
        """What worker processes are started with."""
        held = {client.name: _slice_data(client, self.train) for client in self.clients}
        test = SliceData("test", self.test.ids, self.test.labels, self.test.contents)
        return Setup(self.run, self.train.label_count, held, test, modules.get, cache)

    def check_contents(self, progress: Callable[[float], None] = lambda share: None) -> None:
        """Every image decodes and every text fits; the first that does not is named."""
        for target in self.targets:
            if not target.parents and not self.records(target):
                raise InputError(
                    f"group {target.groups[0]} has no record; lower grouping.groups or grouping.slices"
                )
        total, done = len(self.train) + len(self.test), 0
        for table in (self.train, self.test):
            for name, content in zip(table.ids, table.contents, strict=True):
                self.inputs.item(name, content)
                done += 1
                progress(done / total)

    def records(self, target: Target) -> int:
        """How many records a round of this module trains on."""
        sizes = {client.name: client.slice_sizes() for client in self.clients}
        return sum(sizes[name][index] for name, held in target.slices.items() for index in held)


def prepare(run: Run, decided: Grouping | None = None) -> Prepared:
    """All of a run but its training. A grouping that was decided before is taken as it is."""
    columns = _columns(run)
    data = run.data
    train = load_table(data.source, columns, labels=data.labels, limit=data.limit)
    test = load_table(
        data.source,
        columns,
        split="test",
        test=data.test,
        labels=train.label_count,
        limit=data.test_limit,
    )
    clients = make_clients(
        train,
        partition=data.partition,
        clients=data.clients,
        alpha=data.alpha,
        seed=data.seed,
        slices=run.slices_per_client(),
    )
    backbone = load_backbone(run.model.backbone, run.model.task, train.label_count)
    inputs = make_inputs(run.model, backbone)
    stack = Stack(backbone, run.peft)
    grouped = decided or _group(run, clients, train, stack, inputs)
    plan = plans.make(
        run.plan.kind,
        run.grouping.groups,
        budget=run.plan.budget,
        passes=run.plan.passes,
        seed=run.plan.seed,
    )
    recipe = make_recipe(run, train.label_count, inputs, stack)
    targets = make_targets(recipe, clients, grouped, plan)
    return Prepared(run, train, test, clients, grouped, plan, stack, inputs, recipe, tuple(targets))


def make_recipe(run: Run, labels: int, inputs: Inputs, stack: Stack) -> Recipe:
    """The part of the configuration that shapes a module's bytes: neither paths, plans nor workers do."""
    used = {
        "lora": ("kind", "rank", "alpha", "freeze_a"),
        "ia3": ("kind",),
        "prefix": ("kind", "tokens", "hidden"),
    }[run.peft.kind]
    config: dict[str, Any] = {
        "inputs": inputs.describe(),
        "labels": labels,
        "peft": run.peft.model_dump(include=set(used)) | {"linears": list(stack.places.linears)},
        "training": run.training.model_dump(),
    }
    device = profile.pick_device(run.model.device)
    return Recipe(config, stack.backbone.hash, profile.describe(device))


def _columns(run: Run) -> Columns:
    default = ["image"] if run.model.task == "image" else ["sentence"]
    owner = run.data.client_column if run.data.partition == "given" else None
    names = tuple(run.data.input_columns or default)
    return Columns(names, run.data.id_column, run.data.label_column, owner)


def _group(run: Run, clients: Sequence[Client], table: Table, stack: Stack, inputs: Inputs) -> Grouping:
    settings = run.grouping
    related: dict[str, Any] = {}
    if settings.method == "affinity":  # each client keeps to few groups
        related = {"clusters": range(run.data.clients)}
    elif settings.method != "random":
        related = {"embeddings": slice_embeddings(clients, table, stack, inputs)}
    return grouping.make(
        settings.method,
        run.slices_per_client(),
        settings.groups,
        limits=settings.limits,
        seed=settings.seed,
        **related,
    )


def slice_embeddings(
    clients: Sequence[Client], table: Table, stack: Stack, inputs: Inputs
) -> NDArray[np.float64]:
    """Each slice's mean feature under the bare backbone, for groupings that look at data (the appendix)."""
    means = []
    for client in clients:
        for part in _slice_data(client, table):
            items = [inputs.item(*entry) for entry in zip(part.ids, part.contents, strict=True)]
            means.append(stack.features(items, inputs.batch).mean(axis=0) if items else None)
    known = [mean for mean in means if mean is not None]
    return np.stack([mean if mean is not None else np.mean(known, axis=0) for mean in means])


def _slice_data(client: Client, table: Table) -> list[SliceData]:
    parts: list[SliceData] = []
    for fingerprint, records in zip(client.fingerprints(), client.cut(), strict=True):
        rows: Sequence[int] = table.index_of(record.id for record in records)
        ids, labels, contents = table.ids, table.labels, table.contents
        parts.append(
            SliceData(
                fingerprint,
                tuple(ids[row] for row in rows),
                tuple(labels[row] for row in rows),
                tuple(contents[row] for row in rows),
            )
        )
    return parts
