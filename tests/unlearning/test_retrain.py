"""Retraining, and requests that come during training: what is trained, and what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_deletions import copied, prefixes, problems, trained_run
from tiny_world import Quiet, Row, World, trained

import fedsgt.runs.folder
from fedsgt.build.prepare import prepare
from fedsgt.build.train import train
from fedsgt.data.slices import slice_of
from fedsgt.engine.events import ClientUpdated, Event, RoundFinished
from fedsgt.errors import InputError
from fedsgt.ledger.ledger import Ledger
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.retrain import due
from fedsgt.unlearning.unlearn import accept, recover, unlearn


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run")


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


def hashes(folder: RunFolder) -> dict[tuple[int, ...], str]:
    """Return the hash of every module that is there, by prefix."""
    present = folder.present()
    return {
        tuple(entry.groups): folder.modules.manifest(entry.key).sha256
        for entry in folder.live().description.modules
        if entry.key in present
    }


def rows_in(images: World, folder: RunFolder, group: int) -> list[Row]:
    return images.inside(prepare(folder.config, folder.description), group)


def test_only_dead_modules_are_trained_again_the_most_whole_sequence_first(
    images: World, folder: RunFolder
) -> None:
    """Rotations 012, 201, 120 without group 1 lack two modules, one, and all."""
    row = rows_in(images, folder, 1)[0]
    unlearn(folder, [Deletion(row.client, records=(row.id,))])
    survivors = hashes(folder)
    quiet = Quiet()
    again = train(folder.config, folder.path, quiet)
    assert len(quiet.modules) == 6
    assert all(1 in groups for groups in quiet.modules)
    assert quiet.modules[0] == (2, 0, 1), "the sequence that lacked one module serves again first"
    after = hashes(again)
    assert {groups: after[groups] for groups in survivors} == survivors
    fresh = trained(folder.path.parent / "fresh", images.without([row]).config())
    assert after == {groups: sha256 for groups, (_, sha256) in fresh.items()}, "as if it had never been there"
    assert problems(again) == []
    kinds = [entry.kind for entry in again.ledger.entries()]
    assert kinds[-3:] == ["rebuilt", "built", "built"], "told when the first serves, and at the end"


def test_a_second_training_finds_nothing_to_do(folder: RunFolder) -> None:
    unlearn(folder, [Deletion("c0")])
    train(folder.config, folder.path, Quiet())
    quiet = Quiet()
    train(folder.config, folder.path, quiet)
    assert quiet.modules == []


def test_a_group_without_records_is_left_out(images: World, folder: RunFolder) -> None:
    """Nobody holds anything of group 2 any more."""
    with_records = {row.client for row in rows_in(images, folder, 2)}
    description = folder.description
    slices = [
        Deletion(client.name, slices=(index,))
        for client, groups in zip(description.clients, description.groups_of, strict=True)
        for index, group in enumerate(groups)
        if group == 2 and client.name in with_records
    ]
    unlearn(folder, slices)
    again = train(folder.config, folder.path, Quiet())
    assert again.live().description.sequences == [[0, 1], [1, 0]]
    assert all(prefixes(again))
    assert problems(again) == []


def test_a_group_that_never_had_a_record_stays_in_the_plan(images: World, tmp_path: Path) -> None:
    """Hashes may leave a slice empty; a later group of one such slice is allowed, and the run can go on."""
    rows = [row for row in images.rows if row.client != "c3"]
    slices = [slice_of(row.id, f"0/{row.client}", 2) for row in rows]
    few = [row for row, index in zip(rows, slices, strict=True) if not (row.client == "c0" and index == 1)]
    world = replace(images, rows=tuple(few))
    config = world.config("data.clients=3", "grouping.groups=6", "plan.budget=1", "data.labels=3")
    folder = train(config, tmp_path / "run", Quiet())
    quiet = Quiet()
    train(config, tmp_path / "run", quiet)
    assert quiet.modules == []
    assert [len(order) for order in folder.live().description.sequences] == [6]


def test_when_nobody_is_left_training_says_so(folder: RunFolder) -> None:
    unlearn(folder, [Deletion(client) for client in ("c0", "c1", "c2", "c3")])
    assert prefixes(folder) == [(), (), ()]
    with pytest.raises(InputError, match="no record is left in any group"):
        train(folder.config, folder.path, Quiet())


class AcceptsMeanwhile(Quiet):
    """Deletes a record, as another process would, while a round's result is being written."""

    def __init__(self, path: Path, row: Row, when: int) -> None:
        super().__init__()
        self.path, self.wanted, self.when = path, [Deletion(row.client, records=(row.id,))], when

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        # To destroy, it must wait until this is written.
        if isinstance(event, RoundFinished) and len(self.rounds) == self.when:
            accept(open_run(self.path), self.wanted)


class DestroysMeanwhile(AcceptsMeanwhile):
    """The whole of it, between two clients' updates: modules that others are trained on disappear."""

    updates = 0

    def __call__(self, event: Event) -> None:
        Quiet.__call__(self, event)
        self.updates += isinstance(event, ClientUpdated)
        if isinstance(event, ClientUpdated) and self.updates == self.when:
            unlearn(open_run(self.path), self.wanted)


@pytest.mark.parametrize(
    ("kind", "when", "workers"),
    [
        (AcceptsMeanwhile, 1, 0),
        (AcceptsMeanwhile, 4, 0),
        (DestroysMeanwhile, 5, 0),
        (DestroysMeanwhile, 14, 2),
    ],
)
def test_a_request_during_training_cancels_what_depends_on_it_and_nothing_else(
    kind: type[AcceptsMeanwhile], when: int, workers: int, images: World, tmp_path: Path
) -> None:
    config = images.config(f"engine.workers={workers}", "training.rounds=2")
    row = images.inside(prepare(config), 1)[0]
    display = kind(tmp_path / "run", row, when)
    folder = train(config, tmp_path / "run", display)
    assert folder.live().requests
    clean = {groups for groups in _all_prefixes(folder) if 1 not in groups}
    assert hashes(folder).keys() >= clean
    assert {groups for groups in display.modules if 1 not in groups} == clean, "all that may be, is trained"
    recover(folder)
    assert hashes(folder).keys() == clean
    assert problems(folder) == []
    again = train(images.config("training.rounds=2"), tmp_path / "run", Quiet())
    fresh = trained(tmp_path / "fresh", images.without([row]).config("training.rounds=2"))
    assert hashes(again) == {groups: sha256 for groups, (_, sha256) in fresh.items()}


def _all_prefixes(folder: RunFolder) -> set[tuple[int, ...]]:
    return {tuple(entry.groups) for entry in folder.description.modules}


POLICIES: dict[str, tuple[list[str], int, bool]] = {
    "never": (["never"], 3, False),
    "now": (["now"], 1, True),
    "when-exhausted, some left": (["when-exhausted"], 1, False),
    "when-exhausted, none left": (["when-exhausted"], 3, True),
    "below-modules, above": (["below-modules", "unlearning.threshold=3"], 1, False),
    "below-modules, below": (["below-modules", "unlearning.threshold=4"], 1, True),
    "below-accuracy, above": (["below-accuracy", "unlearning.threshold=0.5"], 1, False),
    "below-accuracy, below": (["below-accuracy", "unlearning.threshold=0.9"], 1, True),
}


@pytest.mark.parametrize("name", POLICIES)
def test_policies(name: str, images: World, folder: RunFolder) -> None:
    """One deletion in group 1 leaves 0, 2 and 20 of nine modules."""
    (policy, *threshold), groups, expected = POLICIES[name]
    config = images.config(f"unlearning.retrain={policy}", *threshold)
    folder = RunFolder(folder.path, config, folder.description)
    assert due(folder, folder.live(), lambda: 0.7) is None, "nothing is dead yet"
    for group in (1, 0, 2)[:groups]:
        row = rows_in(images, folder, group)[0]
        unlearn(folder, [Deletion(row.client, records=(row.id,))])
    assert (due(folder, folder.live(), lambda: 0.7) is not None) == expected


def test_training_does_not_overtake_a_request(folder: RunFolder) -> None:
    """Its bytes must go before another description forgets that they are there."""
    accept(folder, [Deletion("c1")])
    with pytest.raises(InputError, match=r"request no\. 3 is not completed"):
        train(folder.config, folder.path, Quiet())
    again = train(folder.config, folder.path, Quiet(), recover)
    assert problems(again) == []


def test_who_uses_a_run_sees_a_new_description_at_once(folder: RunFolder) -> None:
    """From the ledger's entry on, also if its writer was killed right after it; and not before."""
    other = open_run(folder.path)
    before = other.live().description
    unlearn(folder, [Deletion("c1")])
    for place, name in ((Ledger, "writing"), (fedsgt.runs.folder, "destroy")):
        assert other.live().description is before
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, name, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                train(folder.config, folder.path, Quiet())
    assert other.live().description.as_of == other.live().position - 1
    assert other.live().dead == frozenset()
