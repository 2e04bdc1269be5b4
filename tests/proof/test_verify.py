"""Verification of honest runs: all is the same, whatever was deleted, and deleted records are nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rebuild_child import warm
from tiny_world import Quiet, Row, World

from fedsgt.build.prepare import describe, prepare
from fedsgt.build.train import train
from fedsgt.config import Config
from fedsgt.errors import InputError
from fedsgt.proof import verify as verify_module
from fedsgt.proof.verify import Verification, verify
from fedsgt.runs.description import ClientEntry
from fedsgt.runs.folder import RunFolder, create_run, open_run
from fedsgt.runs.work import WORK
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, unlearn

pytestmark = pytest.mark.usefixtures("temporary")


@pytest.fixture(scope="module")
def group_1(images: World, config: Config) -> list[Row]:
    return images.inside(prepare(config), 1)


def all_same(found: Verification, modules: int) -> bool:
    assert found.counts == {"same": modules}, [entry.reason for entry in found.modules]
    return found.passed and not found.failed and found.served == modules


def files_with(folder: Path, texts: Iterable[str | bytes]) -> dict[str, set[str]]:
    """Return the files whose bytes contain any of these."""
    wanted = [text.encode() if isinstance(text, str) else text for text in texts]
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        hits = {repr(text) for text in wanted if text in data}
        if hits:
            found[path.relative_to(folder).as_posix()] = hits
    return found


def test_after_a_deletion_in_a_fresh_process(
    folder: RunFolder, images: World, group_1: list[Row], tmp_path: Path
) -> None:
    """Run the command as users do, and search its folder afterwards."""
    gone = group_1[0]
    unlearn(folder, [Deletion(gone.client, records=(gone.id,))])
    shares: list[float] = []
    found = verify(folder, progress=shares.append, keep=tmp_path / "kept")
    assert all_same(found, 3)
    assert {entry.groups for entry in found.modules} == {(0,), (2,), (2, 0)}
    assert (found.position, found.unfinished, found.sample) == (folder.live().position, (), None)
    assert found.data_dependent_choices == ()
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)

    kept = tmp_path / "kept"
    assert kept.stat().st_mode & 0o777 == 0o700
    outside = [row for row in images.rows if row not in group_1]
    assert set(files_with(kept, [row.id for row in outside])) == {f"records/{n}.parquet" for n in range(4)}
    assert len(set().union(*files_with(kept, [row.content for row in outside]).values())) == len(outside)
    assert files_with(kept, [row.id for row in group_1] + [row.content for row in group_1]) == {}
    assert files_with(kept, [folder.config.data.source, str(folder.path)]) == {}


def test_after_deletions_of_every_kind_and_retraining(
    folder: RunFolder, images: World, config: Config, tmp_path: Path
) -> None:
    """Delete a record of one client, a slice of one and all of another; then train their groups again."""
    record = next(row for row in images.rows if row.client == "c0")
    slices = folder.description.clients[1].records
    unlearn(folder, [Deletion("c0", records=(record.id,))])
    unlearn(folder, [Deletion("c1", slices=(1,)), Deletion("c2")])
    folder = train(config, folder.path, Quiet())
    assert [sum(client.records) for client in folder.live().description.clients] == [11, slices[0], 0, 12]
    found = verify(folder, command=warm(), keep=tmp_path / "kept")
    assert all_same(found, 9)
    gone = [record, *(row for row in images.rows if row.client == "c2")]
    assert files_with(tmp_path / "kept", [row.id for row in gone] + [row.content for row in gone]) == {}
    assert not (tmp_path / "kept" / "records" / "2.parquet").exists()


def test_after_a_group_lost_all_its_records(folder: RunFolder, config: Config) -> None:
    groups_of = folder.description.groups_of
    slices = {
        f"c{number}": tuple(index for index, group in enumerate(groups) if group == 2)
        for number, groups in enumerate(groups_of)
    }
    unlearn(folder, [Deletion(name, slices=held) for name, held in slices.items() if held])
    folder = train(config, folder.path, Quiet())
    assert folder.live().description.sequences == [[0, 1], [1, 0]]
    assert all_same(verify(folder, command=warm()), 4)


def test_a_client_that_came_back_and_row_numbers_for_ids(images: World, tmp_path: Path) -> None:
    """Records are dealt at random; a client that rejoins has a file of its own with the same ids again."""
    config = images.config("data.partition=iid", "data.id_column=#row", "data.seed=3")
    source = Path(config.data.source) / "train.parquet"
    pq.write_table(pq.read_table(source).slice(5, 9), tmp_path / "again.parquet")
    known = describe(prepare(config))
    back = ClientEntry(
        name="client-1~2", slices=["0" * 64] * 2, records=[0, 0], source=str(tmp_path / "again.parquet")
    )
    wider = known.model_copy(
        update={
            "clients": [*known.clients, back],
            "group_of": [*known.group_of, 3, 3],
            "sequences": [*known.sequences, [3, 0], [1, 3]],
        }
    )
    create_run(tmp_path / "run", config, describe(prepare(config, wider), wider))
    folder = train(config, tmp_path / "run", Quiet())
    unlearn(folder, [Deletion("client-1~2", records=("000000004",))])
    folder = train(config, tmp_path / "run", Quiet())
    assert [sum(client.records) for client in folder.live().description.clients] == [12, 12, 12, 12, 8]
    found = verify(folder, command=warm(), keep=tmp_path / "kept")
    assert all_same(found, 12)
    (holder,) = files_with(tmp_path / "kept", ["000000004"])  # another client's record, which is retained
    assert holder != "records/4.parquet"
    assert files_with(tmp_path / "kept", [str(tmp_path / "again.parquet")]) == {}
    assert (1, 3) in {entry.groups for entry in found.modules}


def test_two_input_columns_and_a_grouping_that_looked_at_data(texts: World, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for part in ("train", "test"):
        columns = {
            "number": list(range(48)),
            "class": [row.label for row in texts.rows],
            "first": [row.content for row in texts.rows],
            "second": [f"w{number % 7} w1" for number in range(48)],
        }
        pq.write_table(pa.table(columns), tmp_path / "data" / f"{part}.parquet")
    config = texts.config(
        f"data.source={tmp_path / 'data'}",
        "data.partition=dirichlet",
        "data.alpha=5.0",
        "data.id_column=number",
        "data.label_column=class",
        'data.input_columns=["first", "second"]',
        "data.limit=40",
        "grouping.method=bac",
        "peft.kind=prefix",
        "training.rounds=2",
    )
    folder = train(config, tmp_path / "run", Quiet())
    unlearn(folder, [Deletion("3", slices=(0,))])
    found = verify(folder, command=warm())
    assert all_same(found, found.served)
    assert 0 < found.served < 9
    assert found.data_dependent_choices == ("grouping: bac looked at data content",)


def test_a_sample_has_its_parents_and_is_drawn_again_by_its_seed(folder: RunFolder) -> None:
    def drawn(seed: int | None) -> Verification:
        found = verify(folder, sample=1, seed=seed, command=warm())
        assert (found.served, found.sample, found.passed) == (9, 1, True)
        return found

    def leaf(found: Verification) -> tuple[int, ...]:
        groups = sorted((entry.groups for entry in found.modules), key=len)
        assert groups == [groups[-1][:depth] for depth in range(1, len(groups) + 1)]
        return groups[-1]

    first = drawn(None)
    assert drawn(first.seed).modules == first.modules
    assert len({leaf(first), leaf(drawn(1)), leaf(drawn(2))}) > 1
    assert all_same(verify(folder, sample=99, command=warm()), 9)


def test_no_sample_of_nothing(folder: RunFolder) -> None:
    with pytest.raises(InputError, match="sample: 0 is not allowed"):
        verify(folder, sample=0)


def test_when_no_module_is_served_there_is_nothing_to_do(folder: RunFolder) -> None:
    unlearn(folder, [Deletion(f"c{number}") for number in range(4)])
    found = verify(folder, command=("false",))
    assert (found.modules, found.served, found.passed, found.failed) == ((), 0, True, False)


def test_modules_that_were_never_trained_are_not_missed(images: World, tmp_path: Path) -> None:
    config = images.config()
    create_run(tmp_path / "run", config, describe(prepare(config)))
    found = verify(open_run(tmp_path / "run"), command=("false",))
    assert (found.modules, found.passed) == ((), True)


def test_unfinished_requests_are_named(folder: RunFolder, group_1: list[Row]) -> None:
    answer = accept(folder, [Deletion(group_1[0].client, records=(group_1[0].id,))])
    found = verify(folder, command=warm())
    assert found.unfinished == (answer.position,)
    assert found.counts == {"same": 3, "not destroyed": 6}
    assert found.failed


@pytest.mark.parametrize("step", ["work_folder", "write_retained"])
def test_a_deletion_before_the_records_are_written(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It comes before the work folder is there, or before the first record is in it."""
    inner, steps = getattr(verify_module, step), []

    def late(*arguments: object) -> object:
        unlearn(folder, [Deletion("c0", slices=(0,))])
        steps.append(step)
        return inner(*arguments)

    monkeypatch.setattr(verify_module, step, late)
    with pytest.raises(InputError, match="a deletion came in meanwhile, so nothing was verified"):
        verify(folder, command=("false",))
    assert steps == [step]
    assert not (folder.path / WORK).exists()


def test_a_run_that_cannot_be_written(
    folder: RunFolder, images: World, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an auditor's copy on a read-only mount: the records lie in a temporary folder meanwhile."""
    real, seen = os.access, set[str]()

    def access(path: Path, mode: int) -> bool:
        return Path(path) != folder.path and real(path, mode)

    def look(share: float) -> None:
        (place,) = temporary.iterdir()
        seen.update(path.name for path in place.glob("records/*"))
        assert place.stat().st_mode & 0o777 == 0o700
        assert not (folder.path / WORK).exists()

    monkeypatch.setattr(os, "access", access)
    assert all_same(verify(folder, progress=look, command=warm()), 9)
    assert seen == {f"{number}.parquet" for number in range(4)}
    assert list(temporary.iterdir()) == []
