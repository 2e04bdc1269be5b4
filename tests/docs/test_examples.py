"""The examples are ready to train, once a tiny model of the same class and a few records stand in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedsgt.config import load

if TYPE_CHECKING:
    from tiny_world import World

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_ready_to_train(path: Path, images: World, texts: World) -> None:
    from fedsgt.build.prepare import prepare

    own = load(path)
    world = images if own.model.task == "image" else texts
    small = world.config()
    stand_ins = {
        "data.source": small.data.source,
        "data.test": "test",
        "data.labels": 3,
        "data.id_column": "id",
        "data.input_columns": ["image" if own.model.task == "image" else "sentence"],
        "data.partition": "iid",
        "data.clients": 4,
        "grouping.slices": 5,
        "model.backbone": small.model.backbone,
        "model.max_length": 20,
    }
    if not isinstance(own.peft.layers, str):
        stand_ins["peft.layers"] = 1
    prepared = prepare(load(path, [f"{key}={value}" for key, value in stand_ins.items()]))
    prepared.check_contents()
    assert len(prepared.targets) == own.grouping.groups**2
    assert prepared.run.training == own.training


def test_the_papers_settings() -> None:
    """Table of the appendix: rank, alpha and learning rate; 10 clients, L = B = 10, S = 5."""
    for path, (alpha, rate, epochs) in {
        "cifar10/vit-base.toml": (16, 2e-3, 3),
        "sst2/roberta-large.toml": (32, 1e-4, 5),
    }.items():
        run = load(EXAMPLES[0].parents[1] / path)
        assert (run.peft.rank, run.peft.alpha, run.training.learning_rate) == (16, alpha, rate)
        assert run.training.epochs == epochs
        assert (run.data.clients, run.grouping.groups, run.plan.budget, run.grouping.slices) == (
            10,
            10,
            10,
            5,
        )
