"""Every type of event survives JSON, and a relay file tells a training as its listeners heard it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.engine.events import (
    KINDS,
    ClientTrouble,
    ClientUpdated,
    DataChecked,
    Event,
    EventStream,
    ModuleFinished,
    Note,
    RoundFinished,
    StatisticsMade,
    WorkBegun,
    from_json,
    relay,
    to_json,
)

EVENTS: tuple[type[Event], ...] = get_args(Event)
SAMPLES: dict[type[Event], Event] = {
    WorkBegun: WorkBegun(3, 2, 480, ((0, 1), (1, 0)), ((1, 0),)),
    DataChecked: DataChecked(0.25),
    ClientUpdated: ClientUpdated("a" * 64, (0, 1), "hospital-7", 2, 80, 0.125, 0.1),
    RoundFinished: RoundFinished("a" * 64, (0, 1), 2, 0.30000000000000004, 1.5),
    ModuleFinished: ModuleFinished("a" * 64, (0, 1), "b" * 64, {"loss": 0.1}),
    StatisticsMade: StatisticsMade(3, 40),
    ClientTrouble: ClientTrouble("hospital-7", "did not answer, \u201cagain\u201d"),
    Note: Note("waiting"),
}


def test_every_event_has_a_kind_of_its_own() -> None:
    assert set(KINDS) == set(EVENTS)
    assert len(set(KINDS.values())) == len(EVENTS)


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_survives_json(kind: type[Event]) -> None:
    """A new type of event without a sample fails here."""
    event = SAMPLES[kind]
    again = from_json(json.loads(json.dumps(to_json(event))))
    assert type(again) is kind
    assert again == event


def test_an_update_without_loss_survives_json() -> None:
    event = ClientUpdated("a" * 64, (0, 1), "hospital-7", 2, 80, 0.125)
    assert event.loss is None
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError):
        from_json({"event": "unheard-of"})


def test_listeners_are_told_in_order() -> None:
    heard: list[tuple[str, Event]] = []
    stream = EventStream(
        lambda event: heard.append(("first", event)),
        lambda event: heard.append(("second", event)),
    )
    stream(Note("a"))
    stream(Note("b"))
    assert heard == [("first", Note("a")), ("second", Note("a")), ("first", Note("b")), ("second", Note("b"))]


def without_loss(event: Event) -> Event:
    if isinstance(event, RoundFinished):
        return replace(event, loss=None)
    return replace(event, metrics={}) if isinstance(event, ModuleFinished) else event


def test_a_relayed_training_is_told_as_in_process(images: World, tmp_path: Path) -> None:
    """Another process that reads the relay's file hears what listeners heard, but for the losses.

    The file may outlive a killed command, and no deletion looks into it.
    """
    here, file = Quiet(), tmp_path / "progress.jsonl"
    train(images.config("training.rounds=2"), tmp_path / "run", EventStream(here, relay(file)))
    there = Quiet()
    for line in file.read_text(encoding="utf-8").splitlines():
        there(from_json(json.loads(line)))
    assert there.events == [without_loss(event) for event in here.events]
    assert "loss" not in file.read_text(encoding="utf-8").replace('"loss": null', "")
    assert {type(event) for event in here.events} >= {
        WorkBegun,
        DataChecked,
        ClientUpdated,
        RoundFinished,
        ModuleFinished,
    }
    losses = {event.loss for event in here.events if isinstance(event, ClientUpdated)}
    assert losses == {None}, "a client's loss reaches listeners whose files no deletion cleans"
