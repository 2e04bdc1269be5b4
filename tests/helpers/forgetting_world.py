"""A world for tests of forgetting: images of noise, whose records can only be learnt by heart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tiny_world import CLIENTS, LABELS, Row, World, pgm, save_models, write_rows

from fedsgt.forgetting.attacked_records import AttackedRecords, find_attacked_records
from fedsgt.forgetting.measure import Forgetting
from fedsgt.runs.folder import RunFolder
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

QUICK: dict[str, Any] = {"shadows": 4, "shadow_rounds": 1, "strategy": "long"}


def noise(count: int, seed: int, name: str) -> tuple[Row, ...]:
    """Return images of noise, in which there is nothing to learn but the records themselves."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(LABELS, size=count)
    return tuple(
        Row(
            f"{name}{number:03d}",
            f"c{number % CLIENTS}",
            int(label),
            pgm(rng.integers(0, 256, 64, dtype=np.uint8)),
        )
        for number, label in enumerate(labels)
    )


def noise_world(folder: Path) -> World:
    save_models(folder)
    write_rows(folder / "unseen", noise(90, 1020, "u"), "image")
    return World(folder, "image", noise(12 * CLIENTS, 20, "r"))


def config_of(world: World, *more: str) -> list[str]:
    return [f"data.test={world.folder / 'unseen' / 'train.parquet'}", *more]


def group_deleted(folder: RunFolder, group: int) -> None:
    """Delete all records of one group in one request."""
    description = folder.description
    slices = [
        tuple(index for index, of in enumerate(groups) if of == group) for groups in description.groups_of
    ]
    names = [client.name for client in description.clients]
    unlearn(folder, [Deletion(name, slices=held) for name, held in zip(names, slices, strict=True) if held])


def attacked_of(folder: RunFolder, given: Path | None = None, limit: int | None = None) -> AttackedRecords:
    return find_attacked_records(folder, folder.live(), given, limit, seed=0)


def facts(found: Forgetting) -> dict[str, Any]:
    """Return the results that the seed decides."""
    return found.to_json() | {"seconds": None, "position": None}
