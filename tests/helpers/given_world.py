"""Runs whose records were given in memory: the rows of a tiny world, trained through the Python interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiny_world import Row, World

import fedsgt


def as_dicts(rows: tuple[Row, ...] | list[Row], column: str) -> list[dict[str, Any]]:
    """Return rows as somebody has them in Python."""
    return [{"id": row.id, "label": row.label, column: row.content, "client": row.client} for row in rows]


def data_of(world: World) -> dict[str, list[dict[str, Any]]]:
    """Return the training and test records of a world."""
    column = "image" if world.task == "image" else "sentence"
    return {"train": as_dicts(world.rows, column), "test": as_dicts(world.rows[:6], column)}


def trained_in_memory(world: World, path: Path, *overrides: str) -> fedsgt.Run:
    """Train a run on the records of a world, which are given in memory."""
    return fedsgt.train(world.config(*overrides), path, data=data_of(world), progress=False)
