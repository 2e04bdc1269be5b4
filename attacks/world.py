"""Tiny worlds for the campaigns to attack, made with the helpers of the tests."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsgt.stack import profile

# Before torch is imported, which reads these variables only once.
os.environ.update(profile.environment())
HELPERS = str(Path(__file__).parents[1] / "tests" / "helpers")
if HELPERS not in sys.path:
    sys.path.append(HELPERS)

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from tiny_world import LABELS, SLICES, Row, World, image_rows, make_world, pgm, write_rows  # noqa: E402

from fedsgt.config import Config  # noqa: E402
from fedsgt.data.slices import slice_of  # noqa: E402

__all__ = [
    "Row",
    "World",
    "config_of",
    "fresh_rows",
    "make_world",
    "private_place",
    "settle_in",
    "slice_number",
]
TRAINING = "train.parquet"


@contextmanager
def private_place(keep: Path | None = None) -> Iterator[Path]:
    """Yield a folder for everything that the campaigns write, and remove it, unless it is to be kept."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    made = Path(tempfile.mkdtemp(prefix="fedsgt-attacks-"))
    try:
        yield made
    finally:
        for _ in range(50):
            shutil.rmtree(made, ignore_errors=True)
            if not made.exists():
                break
            time.sleep(0.1)  # a child that is just being ended may have written once more


def settle_in(place: Path) -> Path:
    """Make this process keep state and temporary files below `place`; return the folder to work in."""
    for variable, name in (("FEDSGT_STATE", "state"), ("TMPDIR", "temporary")):
        (place / name).mkdir(parents=True)
        os.environ[variable] = str(place / name)
    (place / "work").mkdir()
    return place / "work"


def config_of(world: World, source: Path, *overrides: str) -> Config:
    """Return the configuration of a tiny run whose owners' file is in the folder `source`."""
    return world.config(f"data.source={source}", "peft.layers=1", *overrides)


def write_source(folder: Path, rows: tuple[Row, ...], padding: int = 0) -> Path:
    """Write an owners' file with its test part; `padding` bytes for each row make a rewrite take longer."""
    write_rows(folder, rows, "image")
    if padding:
        table = pq.read_table(folder / TRAINING)
        pad = [np.random.default_rng(number).bytes(padding) for number in range(len(rows))]
        pq.write_table(table.append_column("padding", pa.array(pad)), folder / TRAINING)
    return folder / TRAINING


def fresh_rows(client: str, tag: str, count: int, seed: int) -> tuple[Row, ...]:
    """Return new records of one client, whose ids nobody has."""
    rng = np.random.default_rng(seed)
    pixels = [rng.integers(0, 220, 64, dtype=np.uint8) for _ in range(count)]
    return tuple(
        Row(f"{tag}-{number}", client, number % LABELS, pgm(content)) for number, content in enumerate(pixels)
    )


def default_rows() -> tuple[Row, ...]:
    """Return the records of a new run's owners."""
    return image_rows()


def slice_number(enrolment: str, record: str, slices: int = SLICES) -> int:
    """Return the slice that a record is in, by the definition alone."""
    return slice_of(record, f"0/{enrolment}", slices)


def ids_in(file: Path) -> set[str]:
    """Read the ids in an owners' file, as its owner would."""
    return set(pq.read_table(file, columns=["id"]).column("id").to_pylist())
