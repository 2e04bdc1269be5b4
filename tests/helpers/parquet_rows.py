"""Three rows of text, and parquet files of them."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from fedsgt.data import Columns

pa = import_module("pyarrow")
parquet = import_module("pyarrow.parquet")

TEXT = Columns(("sentence",))
ROWS: dict[str, Any] = {"id": ["b", "a", "c"], "sentence": ["B", "A", "C"], "label": [1, 0, 1]}


def write(path: Path, columns: dict[str, Any], names: list[str] | None = None) -> str:
    """A parquet file; with names, its label column declares them the way the datasets library does."""
    table = pa.table(columns)
    if names is not None:
        features = {"label": {"names": names, "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    parquet.write_table(table, path)
    return str(path)


def changed(**columns: Any) -> dict[str, Any]:
    return {**ROWS, **columns}
