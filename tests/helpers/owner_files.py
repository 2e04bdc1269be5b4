"""Files of an owner in each format that deleted rows can be taken out of, and folders of images."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SUFFIXES = (".parquet", ".csv", ".jsonl")
KINDS = ("cat", "dog", "eel")


def write_table(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows in the format that the suffix says."""
    listed = list(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(listed), path, row_group_size=max(1, len(listed) // 3))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(listed[0]))
            writer.writeheader()
            writer.writerows(listed)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in listed))
    return path


def read_table(path: Path) -> list[dict[str, Any]]:
    """Return the rows of such a file."""
    if path.suffix == ".parquet":
        found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return found
    with path.open(newline="") as file:
        return list(csv.DictReader(file)) if path.suffix == ".csv" else list(map(json.loads, file))


def write_images(folder: Path, images: Mapping[str, bytes | str]) -> Path:
    """Write files of these paths in the folder."""
    for name, content in images.items():
        assert isinstance(content, bytes)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
