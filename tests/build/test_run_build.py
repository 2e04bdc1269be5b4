"""Events of a run's build: a client's loss is written where a deletion finds it, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiny_world import Quiet, World

from fedsgt.build.client_access import LocalClients
from fedsgt.build.prepare import Prepared, prepare
from fedsgt.build.run_build import record_live, without_update_losses
from fedsgt.build.train import train
from fedsgt.engine.events import ClientTrouble, ClientUpdated, Event, Listener, RoundFinished
from fedsgt.engine.task import Engine, Result
from fedsgt.runs.folder import RunFolder
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


class GroupOneIsDead:
    """Deletions that have hit group 1; remembers whether destruction is held off."""

    held = False

    def dead(self) -> frozenset[int]:
        return frozenset({1})

    @contextmanager
    def publishing(self) -> Iterator[frozenset[int]]:
        self.held = True
        yield self.dead()
        self.held = False


def update(*groups: int) -> ClientUpdated:
    return ClientUpdated("a" * 64, groups, "c0", 1, 8, 0.5, loss=0.25)


def test_only_updates_of_live_modules_are_recorded_and_only_while_nothing_is_destroyed() -> None:
    deletions, recorded = GroupOneIsDead(), list[Event]()

    def record(event: Event) -> None:
        assert deletions.held == isinstance(event, ClientUpdated)
        recorded.append(event)

    listen = record_live(record, deletions)
    # The build tells rounds under the lock itself, and only live ones; taking it again would wait for ever.
    others: list[Event] = [RoundFinished("a" * 64, (0,), 1, 0.25, 0.5), ClientTrouble("c0", "went away")]
    for event in (update(0), update(0, 1), update(1), update(0, 2), *others):
        listen(event)
    assert recorded == [update(0), update(0, 2), *others]


def test_other_listeners_do_not_hear_a_clients_loss() -> None:
    heard = Quiet()
    listen = without_update_losses(heard)
    others: list[Event] = [RoundFinished("a" * 64, (0,), 1, 0.25, 0.5), ClientTrouble("c0", "went away")]
    for event in (update(0), *others):
        listen(event)
    assert heard.events == [ClientUpdated("a" * 64, (0,), "c0", 1, 8, 0.5, loss=None), *others]


class CountsLines(Quiet):
    """Counts the recorded updates whenever it hears of one."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.recorded: list[int] = []

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, ClientUpdated):
            lines = (self.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            self.recorded.append(sum(json.loads(line)["event"] == "update" for line in lines))


def test_an_update_is_recorded_with_its_loss_before_others_hear_of_it(images: World, tmp_path: Path) -> None:
    heard = CountsLines(tmp_path / "run")
    folder: RunFolder = train(images.config("grouping.groups=2"), tmp_path / "run", heard)
    assert heard.recorded == list(range(1, len(heard.recorded) + 1))
    lines = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if line["event"] == "update"]
    assert len(updates) == len(heard.recorded)
    assert all(line["loss"] > 0 for line in updates)


class DeletesWhileWaiting(LocalClients):
    """Clients that delete a record after the build looked for deletions, and before an update comes in."""

    def __init__(self, wanted: Deletion) -> None:
        self.wanted = wanted

    @contextmanager
    def engine(self, folder: RunFolder, prepared: Prepared, tell: Listener) -> Iterator[Engine]:
        with super().engine(folder, prepared, tell) as engine:
            inner, calls = engine.wait, iter(range(10_000))

            def wait() -> Result | None:
                if next(calls) == 1:
                    unlearn(folder, [self.wanted])
                return inner()

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(engine, "wait", wait)
                yield engine


def test_an_update_that_comes_in_after_a_deletion_leaves_no_line(images: World, tmp_path: Path) -> None:
    """Its module died while the client was training: its loss must not be written after the destruction."""
    config = images.config("grouping.groups=2")
    row = images.inside(prepare(config), 0)[0]  # the first module to be trained is that of group 0
    heard = Quiet()
    access = DeletesWhileWaiting(Deletion(row.client, records=(row.id,)))
    folder = train(config, tmp_path / "run", heard, access=access)
    first = [event for event in heard.events if isinstance(event, ClientUpdated)][:2]
    assert [event.groups for event in first] == [(0,), (0,)], "no update came in after the deletion"
    lines = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
    live = {entry.key for entry in folder.live().modules()}
    assert live
    assert {line["module"] for line in lines} == live
