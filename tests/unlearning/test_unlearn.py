"""Deletions of records, slices and clients: what dies, what stays, and what is answered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tiny_deletions import bytes_of, copied, prefixes, problems, record_in, trained_run
from tiny_world import Quiet, World, trained

from fedsgt.build.train import train
from fedsgt.errors import InputError
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.destruction import destroy
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.unlearning import recovery
from fedsgt.unlearning import unlearn as unlearning
from fedsgt.unlearning.erase import SourceReader
from fedsgt.unlearning.request import Deletion, DeletionPart, locate
from fedsgt.unlearning.unlearn import Receipt, accept, accept_parts, preview, recover, unfinished, unlearn

# Modules in the top layer only, so that there are kept activations to destroy.
SETTINGS = ("peft.layers=1", "engine.trackers=[]")


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run", SETTINGS)


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


def test_one_record_kills_the_modules_of_its_group_and_no_other(images: World, folder: RunFolder) -> None:
    client, record = record_in(images, folder, 1)
    before = {key: folder.modules.manifest(key).sha256 for key in folder.present()}
    answer = unlearn(folder, [Deletion(client, records=(record,))])
    assert (answer.records, answer.groups, answer.repeated) == (1, [1], False)
    left = {entry.key for entry in folder.description.modules if 1 not in entry.groups}
    assert folder.present() == left
    assert answer.modules_died == len(before) - len(left)
    assert {key: folder.modules.manifest(key).sha256 for key in left} == {key: before[key] for key in left}
    assert prefixes(folder) == [(0,), (2, 0), ()]
    assert problems(folder) == []


def test_a_whole_slice_and_a_whole_client(folder: RunFolder) -> None:
    description = folder.description
    answer = unlearn(folder, [Deletion("c3", slices=(1,))])
    assert answer.groups == [description.groups_of[3][1]]
    assert answer.records == description.clients[3].records[1]
    whole = unlearn(folder, [Deletion("c1")])
    assert whole.groups == sorted(set(description.groups_of[1]))
    assert whole.records == sum(description.clients[1].records)
    assert problems(folder) == []


def test_a_batch_is_one_request(images: World, folder: RunFolder) -> None:
    client, record = record_in(images, folder, 2)
    answer = unlearn(folder, [Deletion(client, records=(record,)), Deletion("c2", slices=(0,))])
    assert len(folder.live().requests) == 1
    assert set(answer.groups) == {2, folder.description.groups_of[2][0]}
    assert len(list((folder.path / "certificates").iterdir())) == 1


def test_the_same_key_gets_the_first_answer_and_does_nothing(images: World, folder: RunFolder) -> None:
    client, record = record_in(images, folder, 0)
    wanted = [Deletion(client, records=(record,))]
    first = unlearn(folder, wanted, key="ticket 7")
    head = folder.ledger.head()
    again = unlearn(folder, wanted, key="ticket 7")
    assert again.repeated
    assert (again.position, again.certificate) == (first.position, first.certificate)
    assert folder.ledger.head() == head
    with pytest.raises(InputError, match=rf"came with another request before \(no\. {first.position}\)"):
        unlearn(folder, [Deletion("c3")], key="ticket 7")
    with pytest.raises(InputError, match="key is empty"):
        unlearn(folder, wanted, key=" ")
    assert folder.ledger.head() == head


def test_a_second_deletion_in_a_dead_group_is_kept_for_retraining(images: World, folder: RunFolder) -> None:
    """It kills nothing, and must still be in the ledger: the group will be trained again."""
    from fedsgt.build.prepare import prepare

    rows = images.inside(prepare(folder.config, folder.description), 1)[:2]
    unlearn(folder, [Deletion(rows[0].client, records=(rows[0].id,))])
    again = unlearn(folder, [Deletion(rows[1].client, records=(rows[1].id,))])
    assert again.modules_died == 0
    train(folder.config, folder.path, Quiet())
    fresh = trained(folder.path.parent / "fresh", images.without(rows).config(*SETTINGS))
    made = copied(folder.path, folder.path.parent / "copy")
    keys = {tuple(entry.groups): entry.key for entry in made.description.modules}
    assert {groups: made.modules.manifest(key).sha256 for groups, key in keys.items()} == {
        groups: sha256 for groups, (_, sha256) in fresh.items()
    }


def test_an_accepted_request_is_in_force_before_anything_is_destroyed(folder: RunFolder) -> None:
    other = copied_view(folder)
    assert all(prefixes(other))
    answer = accept(folder, [Deletion("c1")])
    assert prefixes(other) == prefixes(folder) != []
    assert folder.live().dead == set(answer.groups)
    assert [entry.position for entry in unfinished(other)] == [answer.position]
    assert any(finding.problem for finding in problems(other))
    assert recover(other).completed == [answer.position]
    assert unfinished(folder) == []
    assert problems(folder) == []


def copied_view(folder: RunFolder) -> RunFolder:
    """Open the run as another process sees it."""
    from fedsgt.runs.folder import open_run

    return open_run(folder.path)


def test_a_clock_that_goes_backwards(folder: RunFolder) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    times = iter(now - timedelta(days=day) for day in range(100))
    folder.ledger.clock = lambda: next(times)
    for client in ("c0", "c1", "c2"):
        unlearn(folder, [Deletion(client)])
    entries = folder.ledger.entries()
    assert [entry.time for entry in entries] == sorted(entry.time for entry in entries)
    assert problems(folder) == []


def test_a_dry_run_changes_nothing(folder: RunFolder) -> None:
    before, head = bytes_of(folder.path), folder.ledger.head()
    now, then, body = preview(folder, [Deletion("c1")])
    assert now.dead == frozenset()
    assert then.dead == set(body["groups"]) != set()
    assert (bytes_of(folder.path), folder.ledger.head()) == (before, head)
    assert unlearn(folder, [Deletion("c1")]).modules_died == body["modules_died"]


def test_a_request_that_comes_in_during_recovery_is_left_to_the_next(folder: RunFolder) -> None:
    """It may be noted as destroyed only by who has destroyed it."""
    first = accept(folder, [Deletion("c0", slices=(0,))])
    other = copied_view(folder)
    inner = destroy

    def slow(*arguments: Any) -> None:
        if len(other.live().requests) == 1:
            accept(other, [Deletion("c1", slices=(0,))])
        inner(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recovery, "destroy", slow)
        assert recover(folder).completed == [first.position]
    (second,) = unfinished(folder)
    assert recover(folder).completed == [second.position]
    assert problems(folder) == []


def tell_built(folder: RunFolder) -> None:
    with folder.ledger.writing() as writer:
        writer.append(Kind.BUILT, {"modules": len(folder.present())})


@pytest.mark.parametrize(
    ("between", "times"),
    [
        (lambda other: accept(other, [Deletion("c0", slices=(0,))]), 2),
        (lambda other: other.describe_anew(other.description), 2),
        (tell_built, 1),
    ],
    ids=["another request", "a new description", "new modules"],
)
def test_records_that_may_have_moved_meanwhile_are_located_again(
    folder: RunFolder, between: Callable[[RunFolder], object], times: int
) -> None:
    other, seen = copied_view(folder), list[int]()

    def find(live: Live) -> list[DeletionPart]:
        seen.append(live.position)
        parts = locate(folder, live, [Deletion("c1", slices=(0,))], SourceReader(folder))
        if len(seen) == 1:
            between(other)
        return parts

    receipt = accept_parts(folder, find, "content")
    assert len(seen) == times
    assert receipt.position == folder.ledger.head() > seen[-1]


def test_a_twin_that_comes_in_at_the_same_time_gets_the_same_answer(folder: RunFolder) -> None:
    other, wanted = copied_view(folder), [Deletion("c1", slices=(0,))]
    answers: list[Receipt] = []
    inner = locate

    def late(asked: RunFolder, live: Live, *rest: Any) -> Any:
        if asked is folder and not answers:
            answers.append(accept(other, wanted, key="twin"))
            live = folder.live()  # as if it had been read only now
        return inner(asked, live, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unlearning, "locate", late)
        answer = accept(folder, wanted, key="twin")
    assert answer.repeated
    assert answer.position == answers[0].position


def test_an_untrained_run(images: World, tmp_path: Path) -> None:
    from tiny_world import started

    _, folder = started(tmp_path / "run", images.config())
    answer = unlearn(folder, [Deletion("c0")])
    assert answer.destroyed == 0
    assert answer.modules_died > 0
