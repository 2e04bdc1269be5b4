"""Answers of a hostile client, none of which may end a training, stop a round or cost others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flower_world import Nodes
from tiny_world import Quiet, World, made, trained

from fedsgt.build.prepare import Prepared
from fedsgt.build.train import train
from fedsgt.engine.events import Listener
from fedsgt.engine.flower.engine import FlowerEngine
from fedsgt.engine.flower.messages import TrainingAnswer, TrainingOrder
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.folder import RunFolder
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


def test_who_always_lacks_something_is_not_asked_forever(images: World, tmp_path: Path) -> None:
    asked: list[TrainingOrder] = []

    def lacks(order: TrainingOrder, answer: TrainingAnswer) -> TrainingAnswer:
        asked.append(order)
        return TrainingAnswer(lacks=("f" * 64,))

    run = images.config("grouping.groups=2", "plan.budget=1")
    train(run, tmp_path / "run", Quiet(), access=Nodes(spoil=lacks))
    assert len(asked) == 2, "once a round"


@pytest.mark.parametrize(
    "said", ["no json", "[]", "[" * 60_000, '{"problem": "\\u001b[2J", "backbone": true}']
)
def test_what_a_client_says_at_the_end_costs_nobody_anything(
    images: World, tmp_path: Path, said: str
) -> None:
    """Not even a lie about the backbone: only nodes of this machine are believed that."""
    run = images.config("grouping.groups=2", "plan.budget=1")
    display = Quiet()
    folder = train(run, tmp_path / "run", display, access=Nodes(lie=said, ours=False))
    assert [client for client, _ in display.troubles] == ["c1"]
    assert all(what.isprintable() for _, what in display.troubles)
    assert made(folder) == trained(tmp_path / "here", run)
    assert [entry.kind for entry in folder.ledger.entries()][-1] == Kind.BUILT


class GoesForGood(Nodes):
    """The client is never there; after some time it deletes everything, and is not needed any more."""

    @contextmanager
    def engine(self, folder: RunFolder, prepared: Prepared, tell: Listener) -> Iterator[FlowerEngine]:
        with super().engine(folder, prepared, tell) as found:
            everybody = found.transport.connections()
            found.transport.connections = lambda: {
                n: place for n, place in everybody.items() if n != self.client
            }
            inner, steps = found.wait, iter(range(3000))

            def wait() -> object:
                if next(steps) == 30:
                    unlearn(folder, [Deletion(self.client)])
                return inner()

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(found, "wait", wait)
                yield found


def test_nobody_is_waited_for_in_vain(images: World, tmp_path: Path) -> None:
    """Modules without the absent client are trained; its own rounds are cancelled, and forgotten."""
    access = GoesForGood()
    folder = train(images.config("grouping.groups=4"), tmp_path / "run", Quiet(), access=access)
    live = {entry.key for entry in folder.live().modules()}
    assert live == folder.present()
