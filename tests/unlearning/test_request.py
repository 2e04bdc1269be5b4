"""Requests: which slices and groups they hit, how many records they count, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_deletions import bytes_of, copied, problems, record_in, trained_run
from tiny_world import World

from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import preview, unlearn


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run")


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


def test_clients_are_named_or_numbered(folder: RunFolder) -> None:
    first = preview(folder, [Deletion("c2")])[2]
    second = preview(folder, [Deletion("2")])[2]
    assert first == second


WRONG: dict[str, tuple[list[Deletion], str]] = {
    "client": ([Deletion("nobody")], "client 'nobody' is not in this run; its 4 clients are c0, c1, c2"),
    "number": ([Deletion("4")], "client '4' is not in this run"),
    "slice": ([Deletion("c0", slices=(2,))], "client c0 has no slice 2; it has 0 to 1"),
    "negative": ([Deletion("c0", slices=(-1,))], "client c0 has no slice -1"),
    "record": ([Deletion("c0", records=("r999",))], "client c0: no record has the id 'r999'"),
    "another's record": ([Deletion("c0", records=("r001",))], "client c0: no record has the id 'r001'"),
    "one of a batch": ([Deletion("c1"), Deletion("c0", records=("r999",))], "no record has the id 'r999'"),
    "nothing": ([], "the request is empty"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_there_is_refused_and_nothing_is_changed(name: str, folder: RunFolder) -> None:
    deletions, problem = WRONG[name]
    before, head = bytes_of(folder.path), folder.ledger.head()
    for attempt in (unlearn, preview):
        with pytest.raises(InputError, match=problem) as raised:
            attempt(folder, deletions)
        assert "\n" not in str(raised.value)
    assert (bytes_of(folder.path), folder.ledger.head()) == (before, head)


def test_records_and_slices_together_are_refused() -> None:
    with pytest.raises(InputError, match="records or slices, not both"):
        Deletion("c0", records=("a",), slices=(0,))


@pytest.mark.parametrize("empty", [{"records": ()}, {"slices": ()}])
def test_nothing_is_not_everything(empty: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="nothing is named to delete"):
        Deletion("c0", **empty)


def test_what_was_deleted_before_is_refused(images: World, folder: RunFolder) -> None:
    client, record = record_in(images, folder, 0)
    unlearn(folder, [Deletion(client, records=(record,))])
    with pytest.raises(InputError, match=f"'{record}' was deleted before, by request no. 3"):
        unlearn(folder, [Deletion(client, records=(record,))])
    unlearn(folder, [Deletion("c3", slices=(1,))])
    with pytest.raises(InputError, match=r"slice 1 of client c3 was deleted before, by request no\. 6"):
        unlearn(folder, [Deletion("c3", slices=(1,))])
    unlearn(folder, [Deletion("c3")])
    with pytest.raises(InputError, match="client c3: there is no record left to delete"):
        unlearn(folder, [Deletion("c3")])
    assert problems(folder) == []


def test_counts_are_of_records_that_are_there(images: World, folder: RunFolder) -> None:
    held = [row.id for row in images.rows if row.client == "c0"]
    assert unlearn(folder, [Deletion("c0", records=tuple(held[:3]))]).records == 3
    both = [Deletion("c0", records=tuple(held[3:5])), Deletion("c0")]
    assert unlearn(folder, both).records == len(held) - 3
    with pytest.raises(InputError, match="there is no record left to delete"):
        unlearn(folder, [Deletion("c0")])
