"""Clients that come back: their groups stand on what is live, and nothing live is trained again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from rebuild_child import warm
from tiny_deletions import copied, prefixes, problems, trained_run
from tiny_world import GROUPS, SLICES, Quiet, Row, World, pgm, write_rows

from fedsgt.build.train import train
from fedsgt.errors import InputError
from fedsgt.proof.verify import verify
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.statistics import missing_statistics, present_statistics, statistics_in_force
from fedsgt.unlearning.rejoin import rejoin
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


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


def new_rows(count: int = 8) -> list[Row]:
    import numpy as np

    rng = np.random.default_rng(9)
    pixels = [rng.integers(0, 220, 64, dtype=np.uint8) for _ in range(count)]
    return [Row(f"n{number}", "", number % 3, pgm(pixels[number])) for number in range(count)]


@pytest.fixture(scope="module")
def returning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("returning") / "data", new_rows(), "image") / "train.parquet"


def test_a_client_comes_back_on_top_of_what_is_live(folder: RunFolder, returning: Path) -> None:
    unlearn(folder, [Deletion("c1")])
    before, served = hashes(folder), prefixes(folder)
    quiet = Quiet()
    joined = rejoin(folder, "c1", returning, 2, 1, quiet)
    new = GROUPS
    assert (joined.name, joined.records, joined.groups) == ("c1~2", 8, [new])
    expected = {(*prefix, new) for prefix in served if prefix} | {(new,)}
    assert set(quiet.modules) == expected
    assert joined.trained == len(expected)
    after = hashes(folder)
    assert {groups: after[groups] for groups in before} == before
    assert {prefix for prefix in prefixes(folder) if prefix} >= expected
    assert problems(folder) == []
    again = train(folder.config, folder.path, Quiet())
    assert all(
        len(prefix) == len(order)
        for prefix, order in zip(prefixes(again), again.live().description.sequences, strict=True)
    )
    assert problems(again) == []


def test_who_came_back_can_leave_again_and_come_back_again(
    folder: RunFolder, returning: Path, tmp_path: Path
) -> None:
    later = Path(shutil.copy(returning, tmp_path / "later.parquet"))
    unlearn(folder, [Deletion("c1")])
    rejoin(folder, "c1", returning, 2, 2, Quiet())
    answer = unlearn(folder, [Deletion("c1", records=("n0",))])
    assert answer.records == 1
    assert min(answer.groups) >= GROUPS
    gone = unlearn(folder, [Deletion("c1")])
    assert gone.groups == [GROUPS, GROUPS + 1]
    assert all(group < GROUPS for prefix in prefixes(folder) for group in prefix)
    assert rejoin(folder, "c1~2", later, 1, 1, Quiet()).name == "c1~3"
    assert problems(folder) == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "client": ({"client": "c9"}, "client 'c9' is not in this run"),
    "slices": ({"slices": 9}, "8 records for 9 slices"),
    "groups": ({"slices": 2, "groups": 3}, "groups: 3 for 2 slices"),
    "file": ({"source": Path("nowhere.parquet")}, "nowhere.parquet"),
}


@pytest.mark.parametrize("name", WRONG)
def test_who_cannot_come_back(name: str, folder: RunFolder, returning: Path) -> None:
    changes, problem = WRONG[name]
    arguments: dict[str, Any] = {"client": "c1", "source": returning, "slices": SLICES, "groups": 1} | changes
    before = folder.path.joinpath("run.json").read_bytes()
    with pytest.raises(InputError, match=problem):
        rejoin(folder, tell=Quiet(), **arguments)
    assert folder.path.joinpath("run.json").read_bytes() == before


def test_a_record_that_a_client_brought_twice_goes_from_both(
    images: World, folder: RunFolder, tmp_path: Path
) -> None:
    again = [row for row in images.rows if row.client == "c0"]
    source = write_rows(tmp_path / "twice", again, "image") / "train.parquet"
    rejoin(folder, "c0", source, 1, 1, Quiet())
    answer = unlearn(folder, [Deletion("c0", records=(again[0].id,))])
    assert (answer.records, len(folder.live().requests[-1].body["parts"])) == (2, 2)
    assert GROUPS in answer.groups
    assert unlearn(folder, [Deletion("c0")]).records == 2 * (len(again) - 1)


def test_what_a_new_description_drops_is_removed(folder: RunFolder, returning: Path) -> None:
    """Children of a lost module would be known to nobody once a client has come back."""
    key = folder.description.keys[0, 1]
    folder.modules.discard(key)
    rejoin(folder, "c1", returning, 1, 1, Quiet())
    assert problems(folder) == []
    assert folder.description.keys[0, 1, 2] not in folder.present()


def test_statistics_of_the_new_client_are_made_and_those_of_dropped_modules_go(
    images: World, returning: Path, tmp_path: Path
) -> None:
    folder = copied(trained_run(images, tmp_path / "made", ["heads.solve=true"]), tmp_path / "run")
    unlearn(folder, [Deletion("c1")])
    rejoin(folder, "c1", returning, 2, 1, Quiet())
    live = folder.live()
    assert missing_statistics(folder, live) == {}
    there = statistics_in_force(folder, live)
    assert there.keys() == {BARE, *(live.description.keys[groups] for groups in hashes(folder))}
    assert {name.client for names in there.values() for name in names} == {0, 2, 3, 4}
    assert present_statistics(folder) == {name for names in there.values() for name in names}
    assert problems(folder) == []
    assert verify(folder, command=warm()).statistic_counts == {"same": 4 * len(there)}


def test_retraining_destroys_the_statistics_of_modules_that_it_drops(images: World, tmp_path: Path) -> None:
    folder = copied(trained_run(images, tmp_path / "made", ["heads.solve=true"]), tmp_path / "run")
    unlearn(folder, [Deletion("c0", slices=(0,))])
    folder = train(folder.config, folder.path, Quiet())
    there = statistics_in_force(folder, folder.live())
    assert missing_statistics(folder, folder.live()) == {}
    assert there.keys() == {BARE, *folder.present()}
    assert present_statistics(folder) == {name for names in there.values() for name in names}
    assert problems(folder) == []
