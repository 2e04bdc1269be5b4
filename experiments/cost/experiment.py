"""Training time against passes, and what a client sends and fetches (the paper's Table 3, Section 5.3)."""

from __future__ import annotations

import time
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from experiments.cost.claims import claims
from experiments.cost.pages import draw, tables
from experiments.harness.bench import Bench, Trained, described
from experiments.harness.clock import Clock, ModuleTime
from experiments.harness.live import rounded
from experiments.harness.report import Plot, Report
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings
from fedsgt.build.train import train
from fedsgt.engine.events import ignore
from fedsgt.grouping import make as make_grouping
from fedsgt.plans import rotations
from fedsgt.reporting.costs import run_costs

CAPTION = (
    "CPU seconds of a whole training (left: by system, with what FedAvg's time and the passes foretell as a "
    "mark; middle: against the number of records; right: of FedSGT's phases, over the mean of all)."
)


def cells(settings: Settings) -> list[Cell]:
    timed = [
        Cell(
            f"{task.replace('/', '-')}-{records}",
            {"task": task, "records": records, "systems": _systems(settings, records)}
            | {"warm_up": settings["warm_up"]},
            "time",
        )
        for task in settings.tasks
        for records in settings["records"]
    ]
    keys = ("clients", "groups", "slices", "groupings")
    return [
        *timed,
        Cell("traffic", {key: settings[key] for key in keys}, "traffic"),
        Cell("federated", dict(settings["federated"]), "federated"),
    ]


def _systems(settings: Settings, records: int) -> list[str]:
    found: list[str] = settings["systems" if records == settings["records"][0] else "grown"]
    return found


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    if cell.name == "traffic":
        return _traffic(settings, seed)
    if cell.name == "federated":
        return _federated(Bench(work / "federated" / str(seed)), seed, **cell.about)
    about, bench = cell.about, Bench(work / "timing" / f"{cell.name}-{seed}")
    _timed(bench, about["task"], seed, "fedavg", about["warm_up"], ["training.rounds=1"])
    return {
        system: _timed(bench, about["task"], seed, system, about["records"]) for system in about["systems"]
    }


def _timed(
    bench: Bench, task: str, seed: int, system: str, records: int, more: list[str] | None = None
) -> dict[str, Any]:
    """Return the CPU seconds of a training that starts from nothing and leaves nothing.

    `again` is the same training with the frozen layers' outputs already computed.
    """
    overrides = [f"data.limit={records}", "data.test_limit=20", *(more or [])]
    run = bench.config(task, seed, system, "iid", overrides, shared=False)
    rmtree(bench.work, ignore_errors=True)
    clock, started = Clock(), time.process_time()
    trained = Trained(train(run, bench.work, clock))
    seconds = time.process_time() - started
    phases, size = _phases(clock.events), _module_bytes(trained)
    rmtree(bench.work / "modules")
    started = time.process_time()
    train(run, bench.work, Clock())
    again = time.process_time() - started
    found = {
        "seconds": round(seconds, 3),
        "again": round(again, 3),
        "passes": passes(trained),
        "sequences": len(trained.plan.sequences),
        "module_bytes": size,
        "phases": phases,
        "settings": described(run),
    }
    rmtree(bench.work)
    return found


def passes(trained: Trained) -> float:
    """Return the passes over all the data in each epoch; clustering by first updates takes one more."""
    config = trained.folder.config
    return trained.plan.passes * config.training.rounds + (config.grouping.method == "updates")


def _module_bytes(trained: Trained) -> int:
    """Return the bytes of the tensors that a client sends at the end of a round."""
    key = next(iter(trained.folder.description.keys.values()))
    return sum(tensor.nbytes for tensor in trained.folder.modules.get(key).values())


def _phases(events: list[ModuleTime]) -> list[float]:
    """Return the median seconds of each depth; the first to need a record also computes its frozen layers."""
    found: dict[int, list[float]] = {}
    before = 0.0
    for event in events:
        found.setdefault(len(event.groups), []).append(event.seconds - before)
        before = event.seconds
    return rounded(float(np.median(found[depth])) for depth in sorted(found))


def _traffic(settings: Settings, seed: int) -> dict[str, Any]:
    """Return the rounds of clients and the frozen modules that they fetch, by slices a client."""
    clients, groups = settings["clients"], settings["groups"]
    plan, found = rotations(groups), {}
    for slices in settings["slices"]:
        numbers = range(seed * settings["groupings"], (seed + 1) * settings["groupings"])
        counts = [
            make_grouping("random", [slices] * clients, groups, seed=number).counts() for number in numbers
        ]
        rounds = np.array([plan.client_rounds(table) for table in counts])
        found[f"S={slices}"] = {
            "rounds": round(float(rounds.mean()), 5),
            "least": int(rounds.min()),
            "most": int(rounds.max()),
            "fetched": round(float(np.mean([plan.client_downloads(table) for table in counts])), 5),
        }
    return found


def _federated(
    bench: Bench, seed: int, clients: int, groups: int, slices: list[int], records: int
) -> dict[str, Any]:
    """Return the traffic of a client in a small training over Flower, beside the plan's prediction."""
    common = ["engine.name=flower", f"data.clients={clients}", f"data.limit={records}", "data.test_limit=20"]
    trainings = {
        f"FedSGT, S={count}": ("fedsgt", [f"grouping.groups={groups}", f"grouping.slices={count}"])
        for count in slices
    }
    trainings["FedAvg"] = ("fedavg", [])
    found = {}
    for name, (system, settings) in trainings.items():
        rmtree(bench.work, ignore_errors=True)
        run = bench.config("digits", seed, system, "iid", [*common, *settings], shared=False)
        folder = train(run, bench.work, ignore)
        told = run_costs(folder, folder.live(), folder.present()).to_json()
        planned, carried = told["per_client"], told["measured"]
        found[name] = {
            "messages": carried["messages"],
            "updates": carried["modules"],
            "rounds": planned["rounds"],
            **{way: [planned[f"{way}load_bytes"], carried[way]] for way in ("up", "down")},
        }
    rmtree(bench.work)
    return found


def report(settings: Settings, results: Results) -> Report:
    tasks = [
        task
        for task in settings.tasks
        if results.cells.get(f"{task.replace('/', '-')}-{settings['records'][0]}")
    ]
    plots = [Plot("time", CAPTION, lambda file: draw(file, settings, results, tasks))] if tasks else []
    return Report(tables(settings, results, tasks), plots, claims(settings, results, tasks))
