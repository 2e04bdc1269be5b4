"""Requests: which slices and groups they hit, how many records they count, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from paper_run import describe
from tiny_deletions import bytes_of, copied, problems, record_in, trained_run
from tiny_world import World

from fedsgt.data.dataset import is_kept_for_test
from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder
from fedsgt.unlearning.request import Deletion, DeletionPart, enrolments, groups_hit
from fedsgt.unlearning.unlearn import preview, unlearn


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run")


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


@pytest.mark.parametrize("simulated", [True, False])
def test_a_number_is_never_an_index(simulated: bool) -> None:
    """Three hospitals are called by numbers: the second of them is not client 1 (definition 11)."""
    hospitals = describe([(0, 1, 2)], [1, 1, 1], names=["101", "7", "23"])
    assert enrolments(hospitals, "7", simulated) == [1]
    for unknown in ("1", "0", "2", "07", "client-1"):
        with pytest.raises(InputError, match=f"client '{unknown}' is not in this run, which has 3 clients"):
            enrolments(hospitals, unknown, simulated)


def test_a_number_stands_for_the_name_of_a_simulated_client() -> None:
    names = [f"client-{number:02d}" for number in range(12)]
    dealt = describe([(0, 1)], [1] * 12, names=names)
    assert enrolments(dealt, "3", simulated=True) == enrolments(dealt, "client-03") == [3]
    assert enrolments(dealt, "11", simulated=True) == [11]
    for given, simulated in (("12", True), ("3", False), ("client-3", True)):
        with pytest.raises(InputError, match="is not in this run"):
            enrolments(dealt, given, simulated)


def test_given_clients_have_no_numbers(folder: RunFolder) -> None:
    """The owners are named by the source, so that 2 is nobody here, neither c2 nor the third client."""
    with pytest.raises(InputError, match="client '2' is not in this run"):
        preview(folder, [Deletion("2")])


WRONG: dict[str, tuple[list[Deletion], str]] = {
    "client": ([Deletion("nobody")], "client 'nobody' is not in this run, which has 4 clients: c0, c1, c2"),
    "number": ([Deletion("4")], "client '4' is not in this run"),
    "slice": ([Deletion("c0", slices=(2,))], "client c0 has no slice 2; it has 0 to 1"),
    "negative": ([Deletion("c0", slices=(-1,))], "client c0 has no slice -1"),
    "record": ([Deletion("c0", records=("r999",))], "client c0: it never registered a record 'r999'"),
    "another's record": (
        [Deletion("c0", records=("r001",))],
        "client c0: it never registered a record 'r001'",
    ),
    "one of a batch": (
        [Deletion("c1"), Deletion("c0", records=("r999",))],
        "it never registered a record 'r999'",
    ),
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


def test_a_record_that_is_kept_for_testing_is_told_as_such(folder: RunFolder) -> None:
    data = folder.config.data.model_copy(update={"test_share": 0.2})
    split = replace(folder, config=folder.config.model_copy(update={"data": data}))
    tested = next(name for name in map(str, range(99)) if is_kept_for_test(name, 0.2))
    trained = next(name for name in map(str, range(99)) if not is_kept_for_test(name, 0.2))
    with pytest.raises(InputError, match=f"record '{tested}', since a record of this id is kept for testing"):
        preview(split, [Deletion("c0", records=(tested,))])
    for run, name in ((split, trained), (folder, tested)):
        with pytest.raises(InputError, match=f"it never registered a record '{name}'; nothing was changed"):
            preview(run, [Deletion("c0", records=(name,))])


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
    with pytest.raises(InputError, match=r"slice 1 of client c3 was deleted before, by request no\. 7"):
        unlearn(folder, [Deletion("c3", slices=(1,))])
    unlearn(folder, [Deletion("c3")])
    with pytest.raises(InputError, match="client c3: there is no record left to delete"):
        unlearn(folder, [Deletion("c3")])
    with pytest.raises(InputError, match="client c3: it never registered a record 'nobody'"):
        unlearn(folder, [Deletion("c3", records=("nobody",))])
    held = next(row.id for row in images.rows if row.client == "c3")
    with pytest.raises(InputError, match=f"'{held}' was deleted before, by request no. "):
        unlearn(folder, [Deletion("c3", records=(held,))])
    assert problems(folder) == []


def test_counts_are_of_records_that_are_there(images: World, folder: RunFolder) -> None:
    held = [row.id for row in images.rows if row.client == "c0"]
    assert unlearn(folder, [Deletion("c0", records=tuple(held[:3]))]).records == 3
    both = [Deletion("c0", records=tuple(held[3:5])), Deletion("c0")]
    assert unlearn(folder, both).records == len(held) - 3
    with pytest.raises(InputError, match="there is no record left to delete"):
        unlearn(folder, [Deletion("c0")])


def test_groups_are_hit_where_a_slice_loses_a_record() -> None:
    description = describe([(0, 1, 2)], [5, 5, 5], group_of=[0, 1, 1, 2, 2, 0])
    both = DeletionPart(0, "", "client", (0, 1), (5, 5), ())
    assert groups_hit(description, [both]) == [0, 1]
    # An empty slice was never learnt from: its group lives on.
    empty = DeletionPart(2, "", "client", (0, 1), (5, 0), ())
    assert groups_hit(description, [empty]) == [2]
    assert groups_hit(description, [empty, both]) == [0, 1, 2]
    assert groups_hit(description, []) == []


def test_a_client_is_all_its_enrolments() -> None:
    plain = describe([(0, 1, 2)], [1, 1, 1], names=["a", "b", "1"])
    rejoined = [
        plain.clients[0].model_copy(update={"name": name, "source": source})
        for name, source in (("a~2", "x.parquet"), ("a~10", "y.parquet"), ("a~b", "z.parquet"), ("a~3", None))
    ]
    description = plain.model_copy(update={"clients": [*plain.clients, *rejoined]})
    # Neither another client's name that begins alike, nor one that never rejoined.
    assert enrolments(description, "a") == [0, 3, 4]
    assert enrolments(description, "a~2") == [3]
    assert enrolments(description, "1") == [2]
    for unknown in ("c", "a~4", "0", "9", "-1", ""):
        with pytest.raises(
            InputError, match=r"not in this run, which has 7 clients: a, b, 1, a~2, a~10, \.\.\.;"
        ):
            enrolments(description, unknown)


def test_a_client_on_a_machine_of_its_own_is_known_by_its_key() -> None:
    plain = describe([(0, 1, 2)], [1, 1, 1], names=["a", "a~2", "a~3"])
    keys = ("key 1", "key 2", "key 1")
    clients = [
        client.model_copy(update={"node": key}) for client, key in zip(plain.clients, keys, strict=True)
    ]
    description = plain.model_copy(update={"clients": clients})
    assert enrolments(description, "a") == [0, 2]
    assert enrolments(description, "a~2") == [1]
