"""Forgetting: can anybody tell that a record was there, and are the modules those of retained data alone?"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from shutil import rmtree
from typing import Any

from experiments.forgetting.shown import SYSTEMS, caption, claims, drawer, tables
from experiments.harness.bench import Bench, Trained, described
from experiments.harness.common import common
from experiments.harness.names import name
from experiments.harness.report import Plot, Report
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from fedsgt.build.train import train
from fedsgt.engine.events import ignore
from fedsgt.files.tensors import Tensors
from fedsgt.forgetting.measure import Forgetting
from fedsgt.forgetting.measure import measure as attack
from fedsgt.grouping import make
from fedsgt.proof.audit import audit
from fedsgt.proof.verify import Verification, verify
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import load_clients
from fedsgt.store import Origin
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import recover, unlearn


def cells(settings: Settings) -> list[Cell]:
    keys = ("share", "shadows", "shadow_rounds", "checks")

    def about(task: str, partition: str, system: str) -> dict[str, Any]:
        own = {key: settings[key] for key in keys} | {"set": settings["systems"][system]}
        groups = settings["systems"]["fedsgt"]  # both delete the records of one of FedSGT's groups
        return {"task": task, "partition": partition, "system": system, "groups": groups} | own

    every = product(settings.tasks, settings.partitions, SYSTEMS)
    return [Cell(name(*which), about(*which)) for which in every]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    about, place = cell.about, work / "forgetting" / f"{cell.name}-{seed}"
    rmtree(place, ignore_errors=True)
    bench, known = Bench(work), (about["task"], seed)
    config = bench.config(*known, about["system"], about["partition"], about["set"], shared=False)
    folder = train(config, place, ignore)
    before, old = Trained(folder).accuracy(), _tensors(folder)
    deletions = _deletions(bench, about, seed)
    unlearn(folder, deletions)
    found: dict[str, Any] = {"accuracy": {"before": before}, "verified": {}}
    # The system serves on, so the surviving modules are looked at as they are.
    if about["system"] == "fedsgt":
        found |= _attacked(folder, about, seed)
        found["accuracy"]["after"] = _accuracy(folder)
        _verify(found, folder, "after", about, seed)
    folder = train(config, place, ignore, recover)
    if about["system"] != "fedsgt":
        found |= _attacked(folder, about, seed)
        found["accuracy"]["after"] = _accuracy(folder)
    found["accuracy"]["retrained"] = _accuracy(folder)
    _verify(found, folder, "retrained", about, seed)
    found["audit"] = [finding.problem for finding in audit(folder) if finding.problem]
    found["control"] = _control(folder, old, seed)
    rmtree(place)
    count = sum(len(deletion.records or ()) for deletion in deletions)
    return found | {"deleted": count, "settings": described(config)}


def _deletions(bench: Bench, about: Any, seed: int) -> list[Deletion]:
    """Return deletions of a large part of one of FedSGT's groups, the same records under every system."""
    own = bench.config(about["task"], seed, "fedsgt", about["partition"], about["groups"], shared=False)
    grouped = own.grouping
    groups = make(
        grouped.method, own.slices_per_client(), grouped.groups, limits=grouped.limits, seed=grouped.seed
    )
    clients = load_clients(own).local
    found: dict[str, list[str]] = {}
    for client, index in groups.slice_ids(0):
        records = clients[client].cut()[index]
        gone = records[: int(about["share"] * len(records))]
        found.setdefault(clients[client].name, []).extend(record.id for record in gone)
    return [Deletion(client, tuple(records)) for client, records in found.items() if records]


def _attacked(folder: RunFolder, about: Any, seed: int) -> dict[str, Any]:
    result: Forgetting = attack(
        folder, shadows=about["shadows"], shadow_rounds=about["shadow_rounds"], seed=seed
    )
    attacks = {which: done.to_json() for which, done in result.attacks.items()}
    return {"attacks": attacks, "as_it_was": result.as_it_was, "not_served": result.not_served}


def _accuracy(folder: RunFolder) -> float | None:
    run = Trained(folder)
    return run.accuracy(folder.live().dead)


def _verify(found: dict[str, Any], folder: RunFolder, when: str, about: Any, seed: int) -> None:
    if when in about["checks"]:
        found["verified"][when] = _told(verify(folder, seed=seed))


def _told(found: Verification) -> dict[str, Any]:
    return {"passed": found.passed, "served": found.served, "counts": found.counts}


def _tensors(folder: RunFolder) -> dict[tuple[int, ...], Tensors]:
    """Return the tensors of all modules, by prefix."""
    return {prefix: folder.modules.get(key) for prefix, key in folder.description.keys.items()}


def _control(folder: RunFolder, old: dict[tuple[int, ...], Tensors], seed: int) -> dict[str, Any]:
    """Act as a server that puts an old module, which learnt the records, in the place of the retrained one.

    It gives it the new manifest, so that all of the store's own checks hold.
    """
    key = folder.description.keys[0,]
    said = folder.modules.manifest(key).model_dump(exclude={"sha256"})
    folder.modules.put(Origin.model_validate(said), old[0,])
    found = verify(folder, seed=seed)
    caught = [list(module.groups) for module in found.modules if module.verdict == "different"]
    return _told(found) | {"caught": caught == [[0]]}


def report(settings: Settings, results: Results) -> Report:
    compared = {
        pair: common(results, [name(*pair, system) for system in SYSTEMS])
        for pair in product(settings.tasks, settings.partitions)
    }
    found = {pair: own for pair, own in compared.items() if own is not None}
    plots = [Plot(name(*pair, "auc"), caption(*pair), drawer(own, *pair)) for pair, own in found.items()]
    said = [claim for pair, own in found.items() for claim in claims(own, pair)]
    return Report(tables(found) if found else [], plots, said)
