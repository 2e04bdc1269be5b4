"""Cost of solved heads: time of solving, a deletion's answer with and without statistics, and taking away.

Everything stands beside its peer in the same run: requests of runs with statistics alternate with those of
runs without, and subtraction of deleted records with making the statistic anew.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fedsgt.stack import profile

os.environ.update(profile.environment())

import numpy as np

from benchmarks.unlearn import made_up
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder, create_run
from fedsgt.runs.statistics import StatisticName, write_statistic
from fedsgt.stack.ridge import solve
from fedsgt.stack.statistics import Statistic
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept

SIZES = (193, 769, 1025, 2049)  # features with the 1
LABELS, BITS = 100, 16
GROUPS, SEQUENCES, RUNS = 10, 10, 10
RECORDS, DELETED, WIDTH = 2_000, 20, 768


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """Return the shortest time of a few."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def features(width: int, records: int, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(records, width)), rng.integers(0, LABELS, records).tolist()


def solving() -> None:
    print(f"solving a head of {LABELS} labels, one thread")
    for size in SIZES:
        total = Statistic.of(*features(size - 1, RECORDS), LABELS, BITS)
        print(f"  {size:>5} features {seconds(partial(solve, total)):8.3f} s")


def made_run(place: Path, solved: bool) -> RunFolder:
    """Return a run of 100 modules, with statistics of each client under all chains if heads are solved."""
    run, description = made_up(GROUPS, SEQUENCES)
    run = run.model_copy(update={"heads": run.heads.model_copy(update={"solve": solved})})
    folder = create_run(place, run, description)
    if solved:
        live, clients = folder.live(), range(len(description.clients))
        first = StatisticName(BARE, 0, live.mark_of(0))
        write_statistic(folder, first, Statistic.of(*features(16, 50), LABELS, BITS))
        data = (folder.path / first.file).read_bytes()
        for chain in (BARE, *(entry.key for entry in description.modules)):
            for name in (StatisticName(chain, client, live.mark_of(client)) for client in clients):
                # Without waiting for the disk, as only their number matters here.
                (folder.path / name.file).parent.mkdir(exist_ok=True)
                (folder.path / name.file).write_bytes(data)
    return folder


def answers(place: Path) -> None:
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(RUNS):
        folders = {solved: made_run(place / f"{number}-{solved}", solved) for solved in (False, True)}
        for folder in folders.values():
            folder.live()
        for client in folders[True].description.clients:
            for solved, folder in folders.items():
                start = time.perf_counter()
                accept(folder, [Deletion(client.name, slices=(0,))], key=f"key {client.name}")
                times[solved].append(1000 * (time.perf_counter() - start))
        for folder in folders.values():
            folder.ledger.close()
    print(f"a request is in force, {GROUPS * SEQUENCES} modules, {len(times[True])} requests each")
    for solved, found in times.items():
        what = f"with {GROUPS * (GROUPS * SEQUENCES + 1)} statistics" if solved else "without"
        print(f"  {what:<22} p50 {np.percentile(found, 50):6.1f} ms   p99 {np.percentile(found, 99):6.1f} ms")


def taking_away() -> None:
    kept, gone = features(WIDTH, RECORDS - DELETED), features(WIDTH, DELETED, seed=1)
    before = Statistic.of(*kept, LABELS, BITS) + Statistic.of(*gone, LABELS, BITS)
    taken = seconds(lambda: before - Statistic.of(*gone, LABELS, BITS))
    anew = seconds(lambda: Statistic.of(*kept, LABELS, BITS))
    print(f"{DELETED} of {RECORDS} records leave a statistic of {WIDTH} features")
    print(f"  forward passes: {DELETED} to take them away, {RECORDS - DELETED} anew")
    print(f"  sums: {taken * 1000:.0f} ms, anew {anew * 1000:.0f} ms ({anew / taken:.1f} times)")


def main() -> None:
    solving()
    with tempfile.TemporaryDirectory() as place:
        answers(Path(place))
    taking_away()


if __name__ == "__main__":
    main()
