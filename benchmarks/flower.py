"""Flower's engines at scale: a thousand simulated clients with five slices each, on a tiny model.

Prints the time of each round, the memory of all processes together, and that of in-process training.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from transformers import ViTConfig, ViTForImageClassification

LABELS = 10
TINY: dict[str, Any] = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
}


def make_source(folder: Path, records: int) -> Path:
    """Write a file of small images in which the label shows, and return its path."""
    rng = np.random.default_rng(0)
    for part, number in (("train", records), ("test", 100)):
        labels = rng.integers(LABELS, size=number)
        pixels = rng.integers(0, 100, (number, 64), dtype=np.uint8)
        pixels[np.arange(number), labels * 6] += 150
        images = [b"P5 8 8 255\n" + row.tobytes() for row in pixels]
        ids = [f"{part}-{row}" for row in range(number)]
        table = pa.table({"id": ids, "label": labels, "image": images})
        pq.write_table(table, folder / f"{part}.parquet")
    return folder


def make_model(folder: Path) -> Path:
    ViTForImageClassification(ViTConfig(image_size=8, patch_size=4, **TINY)).save_pretrained(folder / "vit")
    return folder / "vit"


class Memory(threading.Thread):
    """Largest memory of a process with all its children, looked at a few times a second."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.most, self.over = root, 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.25):
            self.most = max(self.most, sum(map(_proportional, _tree(self.root))))


def _tree(root: int) -> list[int]:
    found, front = [root], [root]
    while front:
        front = [child for parent in front for child in _children(parent)]
        found += front
    return found


def _children(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _proportional(process: int) -> int:
    """Return the bytes of a process; a page that several share counts for each in part."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    line = next((line for line in text.splitlines() if line.startswith("Pss:")), "Pss: 0 kB")
    return int(line.split()[1]) * 1024


def measure(engine: str, config: Path, output: Path) -> tuple[float, int, list[float]]:
    """Return the seconds in all, the peak in bytes, and the seconds between the ends of rounds."""
    command = [sys.executable, "-m", "fedsgt", "train", str(config), "--engine", engine, "-o", str(output)]
    started = time.monotonic()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        memory = Memory(process.pid)
        memory.start()
        assert process.stderr is not None
        depths: dict[int, float] = {}
        for line in process.stderr:
            if line.startswith("module "):
                depths[len(line.split("groups ")[1].split(")")[0].split())] = time.monotonic()
        process.wait()
        memory.over.set()
    if process.returncode:
        raise SystemExit(f"{engine}: training failed")
    ends = [started, *(depths[depth] for depth in sorted(depths))]
    return time.monotonic() - started, memory.most, list(np.diff(ends))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--slices", type=int, default=5)
    parser.add_argument("--groups", type=int, default=5)
    parser.add_argument("--records", type=int, default=20, help="of each client, on average")
    parser.add_argument("--engines", nargs="+", default=["in-process", "flower", "flower-sim"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedsgt-bench-") as name:
        folder = Path(name)
        make_source(folder, given.clients * given.records)
        config = folder / "run.toml"
        config.write_text(_config(given, folder, make_model(folder)), encoding="utf-8")
        print(f"{given.clients} clients with {given.slices} slices each, {given.groups} groups and sequences")
        base = None
        for engine in given.engines:
            seconds, most, rounds = measure(engine, config, folder / engine)
            base = base or seconds
            shown = ", ".join(f"{spent:.1f}" for spent in rounds)
            print(
                f"{engine:<11} {seconds:7.1f} s ({seconds / base:.2f} x), "
                f"peak memory {most / 2**20:,.0f} MiB, seconds by depth: {shown}",
                flush=True,
            )
        _compare(folder, given.engines)


def _config(given: argparse.Namespace, folder: Path, model: Path) -> str:
    return f"""
[data]
source = "{folder}"
clients = {given.clients}
partition = "iid"
labels = {LABELS}
[grouping]
groups = {given.groups}
slices = {given.slices}
[model]
backbone = "{model}"
device = "cpu"
[peft]
rank = 2
layers = 1
[training]
epochs = 1
[engine]
workers = {os.cpu_count() or 1}
"""


def _compare(folder: Path, engines: list[str]) -> None:
    """Check that the modules' bytes do not depend on what carried the messages."""
    found = {
        engine: {
            path.parent.name: path.read_bytes()
            for path in (folder / engine / "modules").glob("*/module.safetensors")
        }
        for engine in engines
    }
    same = all(found[engine] == found[engines[0]] for engine in engines)
    print(f"{len(found[engines[0]])} modules, {'the same bytes' if same else 'DIFFERENT BYTES'} in all")
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
