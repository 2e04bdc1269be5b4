"""The same rows written in every format that people have."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

Rows = Sequence[Mapping[str, Any]]
FORMATS = ("csv", "jsonl", "parquet", "pandas", "saved")


def write_as(form: str, folder: Path, rows: Rows, stem: str = "x") -> Path:
    """Write these rows and return the file or folder; values are texts or whole numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(rows[0])
    if form == "csv":
        path = folder / f"{stem}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    elif form == "jsonl":
        path = folder / f"{stem}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif form == "parquet":
        path = folder / f"{stem}.parquet"
        import_module("pyarrow.parquet").write_table(
            import_module("pyarrow").Table.from_pylist(list(rows)), path
        )
    elif form == "pandas":
        path = folder / f"{stem}.parquet"
        import_module("pandas").DataFrame(list(rows)).to_parquet(path)
    else:
        path = folder / f"{stem}.saved"
        import_module("datasets").Dataset.from_list(list(rows)).save_to_disk(path)
    return path


def write_images(folder: Path, images: Mapping[str, bytes]) -> Path:
    """Write image files by their paths inside the folder."""
    for name, data in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder
