"""Local differential privacy: the noise is as strong as promised, and only its client can reproduce it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from tiny_world import World, trained

from fedsgt.config.sections import Privacy
from fedsgt.engine.privacy import noise_deviation, privatised
from fedsgt.engine.task import Update
from fedsgt.files.tensors import Tensors
from fedsgt.proof.verify import verify
from fedsgt.runs.folder import open_run

START: Tensors = {"a": np.zeros((50, 40), np.float32), "b": np.ones(3, np.float32)}


def update(change: float) -> Update:
    return Update("c", {"a": START["a"] + np.float32(change), "b": START["b"] + np.float32(7)}, 5, 0.3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 50.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_the_noise_is_just_enough(epsilon: float, delta: float) -> None:
    """By the definition: how much more likely one data set makes an output than another, at the worst."""

    def excess(deviation: float) -> float:
        ratio = 2.0 / deviation
        return float(
            norm.cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio)
        )

    found = noise_deviation(epsilon, delta, 2.0)
    assert excess(found * 1.001) < delta < excess(found * 0.999)
    assert noise_deviation(epsilon, delta, 4.0) == pytest.approx(2 * found)


def test_what_an_update_changes_is_clipped_and_what_is_frozen_stays() -> None:
    """With next to no noise: the change has the length of the clip, and the frozen part is as it was."""
    settings = Privacy(epsilon=1e9, delta=0.1, clip=0.5)
    found = privatised(START, update(3.0), ["a"], settings, b"x")
    assert float(np.linalg.norm(found.state["a"])) == pytest.approx(0.5, rel=1e-2)
    assert np.array_equal(found.state["b"], update(3.0).state["b"])
    small = privatised(START, update(1e-6), ["a"], settings, b"x")
    assert float(np.linalg.norm(small.state["a"])) < 0.1, "shorter ones are not stretched"
    assert found.loss == 0.0, "a loss would tell as well"


def test_the_noise_has_its_deviation_and_is_the_same_for_the_very_same_update_only() -> None:
    settings = Privacy(epsilon=2.0, clip=1.0)
    one = privatised(START, update(0.0), ["a"], settings, b"x").state["a"]
    assert float(one.std()) == pytest.approx(noise_deviation(2.0, 1e-5, 2.0), rel=0.1)
    assert np.array_equal(privatised(START, update(0.0), ["a"], settings, b"x").state["a"], one)
    others = [
        privatised(START, update(0.0), ["a"], settings, b"y"),
        privatised(START, update(1e-6), ["a"], settings, b"x"),
        privatised(START, update(0.0), ["a"], Privacy(epsilon=2.5, clip=1.0), b"x"),
        privatised(START | {"b": START["b"] * 2}, update(0.0), ["a"], settings, b"x"),
    ]
    for other in others:  # what is put on two different things tells nothing of either
        assert abs(np.corrcoef(one.ravel(), other.state["a"].ravel())[0, 1]) < 0.1


def test_a_private_run_is_the_same_on_every_engine_and_verifies(images: World, tmp_path: Path) -> None:
    settings = ("privacy.epsilon=20.0", "privacy.clip=0.1", "peft.freeze_a=true", "grouping.groups=2")
    here = trained(tmp_path / "here", images.config(*settings))
    assert trained(tmp_path / "there", images.config(*settings, "engine.name=flower")) == here
    assert {key for key, _ in trained(tmp_path / "plain", images.config(*settings[2:])).values()}.isdisjoint(
        key for key, _ in here.values()
    ), "privacy is part of what a module is"
    assert verify(open_run(tmp_path / "here")).passed
