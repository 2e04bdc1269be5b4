"""Processes and threads that rewrite one file at the same time, or are killed, lose no row and leave none."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from owner_files import SUFFIXES, read_table, write_table

from fedsgt.data.sources.rewrite import rewrite_file

CHILD = """
import sys
from pathlib import Path
from fedsgt.data.sources.rewrite import rewrite_file
path, ids = Path(sys.argv[1]), sys.argv[2:]
import pyarrow.parquet, pyarrow.compute
print("ready", flush=True)
sys.stdin.readline()
for one in ids:
    print(rewrite_file(path, "id", {one}), flush=True)
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
    """Write records that no compression makes much smaller; a parquet file has several row groups."""
    rng = random.Random(rows)
    write_table(path, ({"id": f"id-{row}", "text": rng.randbytes(size // 2).hex()} for row in range(rows)))


def texts_in(path: Path) -> dict[str, str]:
    return {row["id"]: row["text"] for row in read_table(path)}


@pytest.mark.parametrize(
    ("suffix", "rows", "size", "each"),
    [
        (".parquet", 60, 10, 5),
        (".parquet", 300, 100_000, 2),
        (".csv", 60, 10_000, 5),
        (".jsonl", 60, 10_000, 5),
    ],
)
def test_processes_that_delete_at_the_same_time_lose_nothing(
    tmp_path: Path, suffix: str, rows: int, size: int, each: int
) -> None:
    path = tmp_path / f"train{suffix}"
    big_file(path, rows, size)
    before = texts_in(path)
    deleted = [[f"id-{number * 13 + one}" for one in range(each)] for number in range(4)]
    children = [child(path, *ids) for ids in deleted]
    go(children)
    for started in children:
        assert started.communicate()[0].split() == ["1"] * each
        assert started.returncode == 0
    gone = {name for ids in deleted for name in ids}
    after = texts_in(path)
    assert after == {name: text for name, text in before.items() if name not in gone}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_thread_waits_for_another_of_its_process(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"train{suffix}"
    big_file(path, 30, 1000)
    threads = [threading.Thread(target=rewrite_file, args=(path, "id", {f"id-{n}"})) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(texts_in(path)) == [f"id-{n}" for n in range(6, 30)]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_kills_leave_a_whole_file_and_the_next_rewrite_sweeps(tmp_path: Path, suffix: str) -> None:
    path, rng = tmp_path / f"train{suffix}", random.Random(15)
    big_file(path, 150, 100_000)
    before = texts_in(path)
    names = list(before)
    for number in range(8):
        first, second = child(path, *names[number * 15 : number * 15 + 15]), child(path, "id-149")
        go([first, second])
        time.sleep(rng.uniform(0, 0.3))
        for started in (first, second):
            started.send_signal(signal.SIGKILL)
            started.communicate()
        left = texts_in(path)
        assert left.items() <= before.items()
        assert left.keys() >= {*names[number * 15 + 15 : 149]}
    assert rewrite_file(path, "id", {"id-148"}) == 1
    assert list(tmp_path.iterdir()) == [path]
