"""Measuring of missing cells in several processes, lane by lane, with the time left."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings, task_hash
from fedsgt.config.systems import SYSTEMS


@dataclass(frozen=True)
class Job:
    """One seed of one cell."""

    settings: Settings
    cell: Cell
    seed: int


def experiment(name: str) -> Any:
    return import_module(f"experiments.{name}.experiment")


def cells_of(settings: Settings) -> list[Cell]:
    """Return the experiment's cells, each with the settings of its task and system, which identify it."""
    found: list[Cell] = experiment(settings.name).cells(settings)
    return [replace(cell, about={**cell.about, **_behind(cell.about)}) for cell in found]


def _behind(about: Mapping[str, Any]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if "task" in about:
        more["task_file"] = task_hash(about["task"])
    if about.get("system") in SYSTEMS:
        # Results from before there were windows were made without one, as systems are now told to be.
        chosen = [one for one in SYSTEMS[about["system"]].overrides if one != "training.window="]
        more["system_settings"] = chosen
    return more


def missing(settings: Settings, results: Results) -> list[Job]:
    jobs = [
        Job(settings, cell, seed)
        for seed in range(settings.seeds)
        for cell in cells_of(settings)
        if cell.seeds is None or seed < cell.seeds
    ]
    return [job for job in jobs if not results.has(job.cell, job.seed)]


def run_jobs(jobs: Sequence[Job], outcomes: dict[str, Results], work: Path, processes: int) -> None:
    """Measure the jobs and keep each result at once; the first error ends all, and the next call goes on."""
    if not jobs:
        return
    with _pool(processes) as pool, _progress(len(jobs)) as told:
        waiting = _lanes(jobs)
        running: dict[Future[tuple[dict[str, Any], float]], tuple[Job, list[Job]]] = {}
        while waiting or running:
            while waiting and len(running) < processes:
                queue = waiting.pop(0)
                job = queue.pop(0)
                running[pool.submit(measure, job, work)] = job, queue
            done = next(as_completed(running))
            job, queue = running.pop(done)
            measured, seconds = done.result()
            outcomes[job.settings.name].put(job.cell, job.seed, measured, seconds)
            told(f"{job.settings.name}/{job.cell.name}, seed {job.seed}: {seconds:.0f} s")
            if queue:
                waiting.insert(0, queue)


def measure(job: Job, work: Path) -> tuple[dict[str, Any], float]:
    """Measure a job in a process of the pool; return the result and the CPU time that it took."""
    started = time.process_time()
    found = experiment(job.settings.name).measure(job.settings, job.cell, job.seed, work)
    return found, time.process_time() - started


def _lanes(jobs: Iterable[Job]) -> list[list[Job]]:
    lanes: dict[tuple[str, int], list[Job]] = {}
    for job in jobs:
        lanes.setdefault((job.cell.lane, job.seed), []).append(job)
    return list(lanes.values())


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, get_context("spawn"), _ready)


def _ready() -> None:
    """Set the package's execution profile; call this before torch is imported."""
    from fedsgt.stack import profile

    os.environ.update(profile.environment())
    profile.apply()


class _progress:
    """A bar on a terminal, a line for each result elsewhere."""

    def __init__(self, total: int) -> None:
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.total, self.done, self.started = total, 0, time.monotonic()
        self.task = self.bar.add_task("measuring", total=total, left="")

    def __enter__(self) -> Any:
        self.bar.start()
        return self.tell

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def tell(self, text: str) -> None:
        self.done += 1
        rest = (time.monotonic() - self.started) / self.done * (self.total - self.done)
        left = f"about {rest / 60:.0f} min left"
        self.bar.update(self.task, advance=1, description=text, left=left)
        if self.bar.disable:
            print(f"{self.done} of {self.total}: {text}; {left}", file=sys.stderr, flush=True)
