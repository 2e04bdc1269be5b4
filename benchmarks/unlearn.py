"""Cost of a deletion: durable requests against the number of modules, and retraining in their place.

Requests are single slices, each in a group not hit before, sent one after another by one process that has the
run open. The peer, retraining one FedCIO cluster, is a build of the demo's own data on the same machine.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fedsgt.stack import profile

os.environ.update(profile.environment())

import numpy as np

import fedsgt
from fedsgt import plans
from fedsgt.build.build import Build
from fedsgt.build.prepare import Prepared, describe, prepare
from fedsgt.build.targets import Target
from fedsgt.config import Config, load
from fedsgt.data.fingerprints import derive_salt
from fedsgt.engine.inprocess import InProcess
from fedsgt.runs.description import ClientEntry, Description, ModuleEntry
from fedsgt.runs.folder import RunFolder, create_run
from fedsgt.store import Folder, Modules, Origin
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, recover

SIZES = {100: (10, 10), 1_000: (40, 25), 10_000: (100, 100)}  # modules: groups, sequences
SAMPLES = 400
DEMO = Path(fedsgt.__file__).parent / "assets" / "demo.toml"


@dataclass(frozen=True)
class Row:
    """Latencies of one size, in milliseconds."""

    modules: int
    died: float
    p50: float
    p99: float
    most: float


def made_up(groups: int, sequences: int) -> tuple[Config, Description]:
    """Return a run without data: two slices a client, fingerprints and keys that are hashes of names."""
    run = load(None, [f"grouping.groups={groups}", f"plan.budget={sequences}", f"data.clients={groups}"])
    run = run.model_copy(update={"grouping": run.grouping.model_copy(update={"slices": 1})})
    plan = plans.make("rotations", groups, budget=sequences)
    clients = [
        ClientEntry(name=f"client-{number:03d}", slices=[mark("slice", number)], records=[100])
        for number in range(groups)
    ]
    keys = {module.prefix: mark("module", *module.prefix) for module in plan.modules}
    modules = [
        ModuleEntry(
            key=keys[module.prefix],
            parent=keys.get(module.prefix[:-1]),
            groups=list(module.prefix),
            prefix=[mark("group", group) for group in module.prefix],
        )
        for module in plan.modules
    ]
    return run, Description(
        config_hash=mark("config"),
        backbone=mark("backbone"),
        profile={},
        labels=10,
        label_names=None,
        clients=clients,
        grouping="random",
        looks_at_data=False,
        group_of=list(range(groups)),
        plan="rotations",
        sequences=[list(order) for order in plan.sequences],
        modules=modules,
    )


def mark(*parts: str | int) -> str:
    return derive_salt("bench", "/".join(map(str, parts))).hex()


def time_requests(folder: RunFolder) -> Iterator[tuple[float, int]]:
    """Yield the seconds of each durable request, and the number of modules that it killed."""
    folder.live()
    for client in folder.description.clients:
        start = time.perf_counter()
        answer = accept(folder, [Deletion(client.name, slices=(0,))], key=f"key {client.name}")
        yield time.perf_counter() - start, answer.modules_died


def latency(modules: int, place: Path) -> Row:
    groups, sequences = SIZES[modules]
    run, description = made_up(groups, sequences)
    found: list[tuple[float, int]] = []
    for number in range(-(-SAMPLES // groups)):
        folder = create_run(place / f"{modules}-{number}", run, description)
        found += time_requests(folder)
        folder.ledger.close()
    times = np.array([seconds for seconds, _ in found]) * 1000
    died = float(np.mean([count for _, count in found]))
    return Row(modules, died, *(float(np.percentile(times, at)) for at in (50, 99, 100)))


def fill(folder: RunFolder) -> None:
    """Write small modules, without waiting for the disk."""
    scratch = folder.path / "scratch"
    entry = folder.description.modules[0]
    origin = Origin(
        key=entry.key, parent=None, groups=entry.groups, prefix=entry.prefix, config_hash=mark("config"),
        config={}, backbone=mark("backbone"), rounds=0, participants=[], seed=0, versions={}, profile={},
        machine={}, metrics={},
    )  # fmt: skip
    store = Modules(Folder(scratch))
    for entry in folder.description.modules:
        one = origin.model_copy(update={"key": entry.key, "groups": entry.groups, "prefix": entry.prefix})
        store.put(one, {"weight": np.zeros((8, 8), np.float32)})
    shutil.move(scratch / "modules", folder.path / "modules")
    scratch.rmdir()


def completion(modules: int, place: Path) -> tuple[int, float, float]:
    """Return the modules that the first request kills, the seconds to destroy them, and seconds for each."""
    groups, sequences = SIZES[modules]
    folder = create_run(place / f"files-{modules}", *made_up(groups, sequences))
    fill(folder)
    answer = accept(folder, [Deletion(folder.description.clients[0].name, slices=(0,))])
    start = time.perf_counter()
    recover(folder)
    seconds = time.perf_counter() - start
    return answer.modules_died, seconds, seconds / answer.modules_died


def fedcio_cluster(place: Path, clusters: int = 5, rounds: int = 6) -> float:
    """Return the seconds to train one cluster of the demo's clients again, from the initial weights."""
    run = load(DEMO, [f"training.rounds={rounds}"])
    prepared = prepare(run)
    each = len(prepared.clients) // clusters
    known = describe(prepared)
    groups = [number // each for number, client in enumerate(known.clients) for _ in client.slices]
    alone = known.model_copy(update={"group_of": groups, "sequences": [[group] for group in range(clusters)]})
    isolated = prepare(run, alone)
    return train_one(isolated, isolated.targets[0], Modules(Folder(place / "fedcio")))


def train_one(prepared: Prepared, target: Target, modules: Modules) -> float:
    """Train a module and return the seconds, on processes that have imported all they need before."""
    training = prepared.run.training
    with InProcess(prepared.setup(modules, None), prepared.model.stack) as engine:
        warm = replace(prepared.targets[-1])
        Build(prepared.recipe, modules, engine, 1, training.seed).run([warm])
        start = time.perf_counter()
        Build(prepared.recipe, modules, engine, training.rounds, training.seed).run([target])
        return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        place = Path(folder)
        os.environ["FEDSGT_STATE"] = str(place / "state")  # marks on the same disk, not at home
        print("durable requests (answered when the ledger is on disk; files are destroyed after)")
        print(f"{'modules':>8} {'die each':>9} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}")
        rows = [latency(modules, place) for modules in SIZES]
        for row in rows:
            print(f"{row.modules:>8} {row.died:>9.1f} {row.p50:>8.2f} {row.p99:>8.2f} {row.most:>8.2f}")
        grown, base = rows[-1], rows[0]
        print(
            f"from {base.modules} to {grown.modules} modules {grown.died / base.died:.0f} times as many die; "
            f"p50 grows {grown.p50 / base.p50:.1f} times"
        )
        print("\ndestruction and certificate of one request, after its answer")
        for modules in (100, 1_000):
            died, seconds, each = completion(modules, place)
            print(
                f"{modules:>8} modules, {died} die: {seconds:.2f} s, {each * 1000:.1f} ms for each that dies"
            )
        cluster = fedcio_cluster(place)
        print(
            f"\nretraining one FedCIO cluster (2 of the demo's 10 clients, 6 rounds): {cluster:.2f} s, "
            f"{cluster * 1000 / base.p50:.0f} times the p50 of a request at {base.modules} modules"
        )


if __name__ == "__main__":
    main()
