"""Clients that are away, late or failing: waited for, asked again, or left out by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from flower_world import Gone, Nodes, Spoil
from tiny_world import Quiet, World, made, trained

from fedsgt.build.train import train
from fedsgt.engine.flower import transport
from fedsgt.engine.flower.messages import TrainingAnswer, TrainingOrder
from fedsgt.errors import InputError
from fedsgt.proof.verify import verify


def leaves(times: int) -> Spoil:
    left = [times]

    def spoil(order: TrainingOrder, answer: TrainingAnswer) -> TrainingAnswer:
        left[0] -= 1
        if left[0] >= 0:
            raise Gone("nobody there")
        return answer

    return spoil


def test_a_client_that_is_away_is_waited_for(images: World, tmp_path: Path) -> None:
    display = Quiet()
    folder = train(images.config(), tmp_path / "run", display, access=Nodes(spoil=leaves(2)))
    assert [what for _, what in display.troubles if "waiting for it" in what]
    assert made(folder) == trained(tmp_path / "here", images.config())


def test_a_client_whose_program_fails_each_time_is_not_asked_forever(images: World, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"client c1: gave no answer .*Gone: nobody there"):
        train(images.config(), tmp_path / "run", Quiet(), access=Nodes(spoil=leaves(99)))


def test_or_the_round_goes_on_without_it(images: World, tmp_path: Path) -> None:
    config = images.config("engine.absent=go-on")
    display = Quiet()
    folder = train(config, tmp_path / "run", display, access=Nodes(spoil=leaves(1)))
    assert [what for _, what in display.troubles if "goes on without it" in what]
    first_ones = [entry for entry in folder.description.modules if len(entry.groups) == 1]
    rounds = [folder.modules.manifest(entry.key).participants[0] for entry in first_ones]
    assert all("c1" not in there for there in rounds)
    assert verify(folder).passed


def test_a_client_that_is_slow_is_left_out_after_the_timeout(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At the end of a training the server would wait a minute for what it has given up already.
    monkeypatch.setattr(transport, "END_SECONDS", 0.5)
    config = images.config("engine.absent=go-on", "engine.timeout=0.5", "grouping.groups=2", "plan.budget=1")
    display = Quiet()
    folder = train(config, tmp_path / "run", display, access=Nodes(silent=True))
    assert ("c1", "has not answered for 0.5 s; the round goes on without it") in display.troubles
    for entry in folder.description.modules:
        assert "c1" not in folder.modules.manifest(entry.key).participants[0]
