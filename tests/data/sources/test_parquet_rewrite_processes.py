"""Processes and threads that rewrite one file at the same time, or are killed, lose no row and leave none."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import pytest

from fedsgt.data.sources.parquet import rewrite_parquet

pa = import_module("pyarrow")
parquet = import_module("pyarrow.parquet")

CHILD = """
import sys
from pathlib import Path
from fedsgt.data.sources.parquet import rewrite_parquet
path, ids = Path(sys.argv[1]), sys.argv[2:]
import pyarrow.parquet, pyarrow.compute
print("ready", flush=True)
sys.stdin.readline()
for one in ids:
    print(rewrite_parquet(path, "id", {one}), flush=True)
"""


def child(path: Path, *ids: str) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), *ids],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


def go(children: list[subprocess.Popen[str]]) -> None:
    for started in children:
        assert started.stdin is not None
        started.stdin.write("\n")
        started.stdin.flush()


def big_file(path: Path, rows: int, size: int) -> None:
    """Write records that no compression makes smaller, in several row groups."""
    rng = random.Random(rows)
    columns = {
        "id": [f"id-{row}" for row in range(rows)],
        "image": [rng.randbytes(size) for _ in range(rows)],
    }
    parquet.write_table(pa.table(columns), path, row_group_size=rows // 3)


@pytest.mark.parametrize(("rows", "size", "each"), [(60, 10, 5), (300, 100_000, 2)])
def test_processes_that_delete_at_the_same_time_lose_nothing(
    tmp_path: Path, rows: int, size: int, each: int
) -> None:
    path = tmp_path / "train.parquet"
    big_file(path, rows, size)
    before = {row["id"]: row["image"] for row in parquet.read_table(path).to_pylist()}
    deleted = [[f"id-{number * 13 + one}" for one in range(each)] for number in range(4)]
    children = [child(path, *ids) for ids in deleted]
    go(children)
    for started in children:
        assert started.communicate()[0].split() == ["1"] * each
        assert started.returncode == 0
    gone = {name for ids in deleted for name in ids}
    after = {row["id"]: row["image"] for row in parquet.read_table(path).to_pylist()}
    assert after == {name: image for name, image in before.items() if name not in gone}
    assert list(tmp_path.iterdir()) == [path]


def test_a_thread_waits_for_another_of_its_process(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    big_file(path, 30, 1000)
    threads = [threading.Thread(target=rewrite_parquet, args=(path, "id", {f"id-{n}"})) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parquet.read_table(path).column("id").to_pylist() == [f"id-{n}" for n in range(6, 30)]
    assert list(tmp_path.iterdir()) == [path]


def test_kills_leave_a_whole_file_and_the_next_rewrite_sweeps(tmp_path: Path) -> None:
    path, rng = tmp_path / "train.parquet", random.Random(15)
    big_file(path, 150, 100_000)
    before = {row["id"]: row["image"] for row in parquet.read_table(path).to_pylist()}
    names = list(before)
    for number in range(8):
        first, second = child(path, *names[number * 15 : number * 15 + 15]), child(path, "id-149")
        go([first, second])
        time.sleep(rng.uniform(0, 0.3))
        for started in (first, second):
            started.send_signal(signal.SIGKILL)
            started.communicate()
        left = {row["id"]: row["image"] for row in parquet.read_table(path).to_pylist()}
        assert left.items() <= before.items()
        assert left.keys() >= {*names[number * 15 + 15 : 149]}
    assert rewrite_parquet(path, "id", {"id-148"}) == 1
    assert list(tmp_path.iterdir()) == [path]
