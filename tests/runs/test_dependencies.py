"""Dependencies of a run's files: which are reached by anything dead, and which files there are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import pytest
from paper_run import describe, fill, paper_run, request_entry

from fedsgt.runs.dependencies import (
    Dead,
    FromLines,
    FromLiveModules,
    FromModules,
    FromRecords,
    FromSlice,
    FromStatistic,
    FromTraining,
    MadeOf,
    Nothing,
    PartOfModule,
    StoredFile,
    stored_files,
)
from fedsgt.runs.state import NOTHING_DELETED, DeletedData, Live
from fedsgt.store import Folder

NONE_DEAD = Dead(frozenset(), frozenset({"m1", "m2"}), frozenset({"s1"}), frozenset(), 0)
SOME_DEAD = Dead(
    frozenset({"m3"}),
    frozenset({"m1", "m2"}),
    frozenset({"s1"}),
    frozenset({"s2"}),
    7,
    {1: DeletedData(frozenset({0}))},
)

# Dependences of a file, and whether each is dead before any request and after request no. 7.
CASES: list[tuple[MadeOf, bool, bool]] = [
    (Nothing(), False, False),
    (PartOfModule("m1"), False, False),
    (PartOfModule("m3"), False, True),
    # Another run's module in a store that both share.
    (PartOfModule("m9"), False, False),
    (FromModules(frozenset({"m1", "m2"})), False, False),
    (FromModules(frozenset({"m1", "m3"})), True, True),
    (FromModules(frozenset()), False, False),
    # A file that does not say of what it was made may be made of anything that died.
    (FromModules(None), False, True),
    (FromLines(("m1", "m2", "m1")), False, False),
    (FromLines(("m1", "m3")), True, True),
    (FromLines(("m1", None)), True, True),
    (FromLines(()), False, False),
    (FromSlice("s1"), False, False),
    (FromSlice("s2"), True, True),
    # Client 1 has had a slice deleted since; client 0 nothing, and client 7 is none of the run.
    (FromStatistic("m1", 0, NOTHING_DELETED.mark), False, False),
    (FromStatistic(None, 0, NOTHING_DELETED.mark), False, False),
    (FromStatistic("m3", 0, NOTHING_DELETED.mark), True, True),
    (FromStatistic("m1", 1, NOTHING_DELETED.mark), False, True),
    (FromStatistic(None, 1, NOTHING_DELETED.mark), False, True),
    (FromStatistic("m1", 1, DeletedData(frozenset({0})).mark), True, False),
    (FromLiveModules(0), False, True),
    (FromLiveModules(6), False, True),
    (FromLiveModules(7), False, False),
    (FromLiveModules(None), True, True),
    (FromTraining(0.0), False, True),
    (FromRecords(0, Path("nowhere")), False, False),
    # Nobody can tell what is in a file that cannot be read.
    (FromRecords(1, Path("nowhere")), False, True),
]


# Numbered: the text of a set is not the same in every process, and workers must collect the same names.
NAMES = [f"{type(made_of).__name__}-{number}" for number, (made_of, _, _) in enumerate(CASES)]


@pytest.mark.parametrize(("made_of", "at_first", "afterwards"), CASES, ids=NAMES)
def test_what_is_reached_by_anything_dead(made_of: MadeOf, at_first: bool, afterwards: bool) -> None:
    assert (NONE_DEAD.reaches(made_of), SOME_DEAD.reaches(made_of)) == (at_first, afterwards)


def test_every_dependence_is_in_the_table() -> None:
    """A new kind of dependence would otherwise be taken for none."""
    assert {type(made_of) for made_of, *_ in CASES} == set(get_args(MadeOf))


def test_what_is_dead_follows_from_what_is_live() -> None:
    description = describe([(0, 1), (1, 0)], [5, 5])
    part = {"number": 1, "scope": "slice", "slices": [1], "records": []}
    live = Live(description, 4, (request_entry(4, [1], part),))
    dead = Dead.at(live, also=["dropped"])
    keys, marks = description.keys, [client.slices for client in description.clients]
    assert dead.modules == {keys[0, 1], keys[1,], keys[1, 0], "dropped"}
    assert dead.live_modules == {keys[0,]}
    assert dead.live_slices == {*marks[0], marks[1][0]}
    assert dead.last_request == 4


def test_all_files_are_listed_and_links_are_not_followed(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0,)], [5]))
    fill(folder)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("secret")
    (folder.path / "export").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder.path / "pipe")
    found = {file.name: file for file in stored_files(folder)}
    assert list(found) == sorted(found)
    (key,) = folder.present()
    assert found.keys() >= {"run.json", "run.toml", f"modules/{key}/module.safetensors"}
    assert {name for name, file in found.items() if not file.plain} == {"export", "pipe"}
    # Neither is read: the link leads to somebody else's file, and reading the pipe would never end.
    assert [found[name].read() for name in ("export", "pipe")] == [b"", b""]
    assert not any("secret" in name for name in found)


def test_a_file_is_removed_with_the_folders_that_it_leaves_empty(tmp_path: Path) -> None:
    for name in ("export/a b/x", "export/c/y", "modules/k/tensors"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("data")
    root = Folder(tmp_path)
    for name in ("export/a b/x", "modules/k/tensors"):
        file = StoredFile(name, root)
        assert file.read() == b"data"
        file.remove()
        assert file.read() == b""
        file.remove()  # a second time is no error: the first attempt may have been killed
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["c", "export", "y"]


def test_a_link_is_removed_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "target").write_text("mine")
    (tmp_path / "run" / "link").symlink_to(tmp_path / "target")
    StoredFile("link", Folder(tmp_path / "run"), plain=False).remove()
    assert not (tmp_path / "run" / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "mine"
