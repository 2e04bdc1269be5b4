"""`fedsgt.compare`: the same deletions for every system, real runs, and no work that is done twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import fedsgt
from fedsgt.api.comparing.progress import Advance
from fedsgt.ledger.marks import state_folder
from fedsgt.runs.records import load_run_clients

if TYPE_CHECKING:
    from tiny_world import World

    from fedsgt.api.run import Run

REQUESTS = 3
FEW = ["fedsgt", ("fedretrain", ["training.rounds=2"])]


def run_of(output: Path, system: str, seed: int = 0) -> Run:
    return fedsgt.open_run(output / "runs" / system / f"seed-{seed}")


def records_left(run: Run) -> set[str]:
    live = run.folder.live()
    clients = load_run_clients(run.folder, live.description, live.deleted)
    return {record.id for client in clients.local for record in client.records}


def untimed(found: fedsgt.Comparison, systems: Sequence[str] | None = None) -> list[dict[str, Any]]:
    return [
        {**point.to_json(), "seconds": 0}
        for point in found.points
        if systems is None or point.system in systems
    ]


@pytest.fixture(scope="module")
def whole(images: World, tmp_path_factory: pytest.TempPathFactory) -> fedsgt.Comparison:
    """Return a comparison that was not stopped, with the runs of it."""
    output = tmp_path_factory.mktemp("compared") / "out"
    return compared(images, output)


def compared(images: World, output: Path | None, **changes: Any) -> fedsgt.Comparison:
    settings: dict[str, Any] = {
        "systems": [
            "fedsgt",
            "fedavg",
            ("fedretrain", ["training.rounds=2"]),
            # There are few records: some of SISA's twenty groups would be empty.
            ("sisa", ["grouping.groups=4", "grouping.slices=4", "plan.shards=2"]),
        ],
        "requests": REQUESTS,
        "progress": False,
    }
    return fedsgt.compare(images.config(), **settings | {"output": output} | changes)


def test_every_system_deletes_the_same_records(whole: fedsgt.Comparison, images: World) -> None:
    assert whole.output is not None
    left = [records_left(run_of(whole.output, system)) for system in whole.systems]
    assert all(one == left[0] for one in left)
    assert len({row.id for row in images.rows}) - len(left[0]) == REQUESTS  # a tenth of a slice of six
    for system in whole.systems:
        run = run_of(whole.output, system)
        assert len(run.folder.live().requests) == REQUESTS
        assert run.audit().clean


def test_the_points_are_those_of_the_runs(whole: fedsgt.Comparison) -> None:
    assert whole.output is not None
    for system in whole.systems:
        last = whole.points[-1 + (REQUESTS + 1) * (1 + whole.systems.index(system))]
        assert (last.system, last.request) == (system, REQUESTS)
        run = run_of(whole.output, system)
        found = run.evaluate().accuracy
        assert last.accuracy == (None if found is None else found.accuracy)
        assert last.live_modules == run.status().live_modules


def test_a_system_without_retraining_ends_and_one_with_it_goes_on(whole: fedsgt.Comparison) -> None:
    frame = whole.frame
    fedavg, again = (frame[frame.system == name] for name in ("fedavg", "fedretrain"))
    assert list(fedavg.served) == [True, False, False, False]
    assert fedavg.accuracy.isna().sum() == REQUESTS
    assert list(fedavg.accuracy_or_chance[1:]) == [pytest.approx(1 / 3)] * REQUESTS
    assert list(again.served) == [True] * (REQUESTS + 1)


def test_passes_are_the_training_of_each_step(whole: fedsgt.Comparison, images: World) -> None:
    passes = {
        system: [one.passes for one in whole.points if one.system == system] for system in whole.systems
    }
    assert passes["fedsgt"] == [pytest.approx(6), 0, 0, 0]  # three rotations of three groups
    assert passes["fedavg"] == [10, 0, 0, 0]
    # Two rounds over all records, and over those that are left.
    gone, expected = 0, []
    for point in whole.points:
        if point.system == "fedretrain":
            expected.append(2 * (len(images.rows) - gone) / len(images.rows))
            gone += 1  # a tenth of a slice of six records
    assert passes["fedretrain"] == pytest.approx(expected)


class Stop(Exception):
    """The process ends here."""


def stopping(system: str, request: int) -> Any:
    def tell(advance: Advance) -> None:
        point = advance.point
        if point is not None and (point.system, point.request) == (system, request):
            raise Stop

    return tell


@pytest.mark.parametrize(("system", "request_number"), [("fedsgt", 2), ("fedretrain", 0)])
def test_a_stopped_comparison_goes_on_where_it_was(
    whole: fedsgt.Comparison, images: World, tmp_path: Path, system: str, request_number: int
) -> None:
    with pytest.raises(Stop):
        compared(images, tmp_path / "out", systems=FEW, progress=stopping(system, request_number))
    told: list[Advance] = []
    found = compared(images, tmp_path / "out", systems=FEW, progress=told.append)
    assert untimed(found) == untimed(whole, found.systems)
    places = [(one.point.system, one.point.request) for one in told if one.point is not None]
    assert (system, request_number) not in places
    assert len(places) == len(set(places))
    assert told[-1].share == pytest.approx(1)
    for name in found.systems:
        assert len(run_of(tmp_path / "out", name).folder.live().requests) == REQUESTS


def test_a_request_that_was_made_before_a_kill_is_not_made_again(
    whole: fedsgt.Comparison, images: World, tmp_path: Path
) -> None:
    """The kill came after the deletion, and after its retraining, and before the result was written."""
    output = tmp_path / "out"
    names = compared(images, output, systems=FEW).systems
    results = output / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["request"] < REQUESTS]
    results.write_bytes(b"".join(kept) + lines[-1][:20])  # and one line was cut short
    before = {name: run_of(output, name).folder.live().position for name in names}
    assert untimed(compared(images, output, systems=FEW)) == untimed(whole, names)
    assert {name: run_of(output, name).folder.live().position for name in names} == before


def test_other_arguments_in_the_same_folder_are_refused_by_name(
    whole: fedsgt.Comparison, images: World
) -> None:
    changes: list[tuple[dict[str, Any], str]] = [
        ({"requests": 2}, "requests is 2, and was 3"),
        ({"seeds": 2}, "seeds is [0, 1], and was [0]"),
        ({"stream": "records"}, "stream is 'records', and was 'slices'"),
        ({"systems": ["fedsgt"]}, "systems are fedsgt, and were fedsgt, fedavg, fedretrain, sisa"),
        ({"overrides": ["training.epochs=2"]}, "fedsgt: training.epochs is 2, and was 1"),
    ]
    for change, words in changes:
        with pytest.raises(fedsgt.InputError) as error:
            compared(images, whole.output, **change)
        assert words in str(error.value)
        assert "nothing was changed" in str(error.value)
    assert untimed(compared(images, whole.output)) == untimed(whole)


def test_a_folder_of_other_things_is_refused(images: World, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(fedsgt.InputError, match="holds other things than a comparison"):
        compared(images, tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.txt"]


def test_without_an_output_nothing_is_left(images: World, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found = compared(images, None, systems=["fedsgt"], requests=1)
    assert found.output is None
    assert len(found.points) == 2
    assert list(tmp_path.iterdir()) == []
    assert list((state_folder() / "marks").iterdir()) == []


def test_an_owners_file_is_never_rewritten(images: World) -> None:
    """Not even if the configuration says so: it is an experiment, and other systems would miss the rows."""
    source = Path(images.config().data.source) / "train.parquet"
    before = source.read_bytes()
    found = compared(images, None, systems=["fedsgt"], requests=2, overrides=["data.erase=rewrite"])
    assert len(found.points) == 3
    assert source.read_bytes() == before


def test_seeds_are_other_partitions_and_streams(images: World, tmp_path: Path) -> None:
    settings = ["data.partition=iid"]
    found = compared(
        images, tmp_path / "out", systems=["fedsgt"], seeds=[3, 5], requests=2, overrides=settings
    )
    assert [(one.seed, one.request) for one in found.points] == [(s, r) for s in (3, 5) for r in range(3)]
    runs = [run_of(tmp_path / "out", "fedsgt", seed) for seed in (3, 5)]
    assert [run.config.training.seed for run in runs] == [3, 5]
    assert [run.config.data.seed for run in runs] == [3, 5]
    assert [run.config.grouping.seed for run in runs] == [3, 5]
    assert records_left(runs[0]) != records_left(runs[1])


def test_whole_clients_until_none_is_left(images: World) -> None:
    """A system that retrains has nothing left to train on at the end, which is no error."""
    found = compared(images, None, systems=["fedsgt", "fedretrain"], stream="clients", requests=10)
    assert found.requests == 4  # there are no more clients
    assert [one.served for one in found.points if one.system == "fedretrain"] == [True] * 4 + [False]
    assert [one.accuracy for one in found.points][4] is None


def test_requests_of_ones_own(images: World, tmp_path: Path) -> None:
    rows = sorted(row.id for row in images.rows if row.client == "c1")
    stream: Sequence[Any] = [("c1", rows[:2]), fedsgt.Deletion("c1", tuple(rows[2:3])), fedsgt.Deletion("c2")]
    found = compared(images, tmp_path / "out", systems=["fedsgt", "fedavg"], stream=stream)
    assert (found.stream, found.requests) == ("given", 3)
    gone = {*rows[:3], *(row.id for row in images.rows if row.client == "c2")}
    for system in found.systems:
        assert records_left(run_of(tmp_path / "out", system)) == {row.id for row in images.rows} - gone


def test_records_in_memory(whole: fedsgt.Comparison, images: World, tmp_path: Path) -> None:
    records = [
        {"id": row.id, "image": row.content, "label": row.label, "client": row.client} for row in images.rows
    ]
    data = {"train": records, "test": records[:6]}
    found = compared(images, tmp_path / "out", data=data, systems=["fedsgt", "fedavg"])
    assert untimed(found) == untimed(whole, found.systems)
    with pytest.raises(fedsgt.InputError, match="the records or the requests are others"):
        compared(images, tmp_path / "out", data={**data, "train": records[4:]}, systems=["fedsgt", "fedavg"])


def test_all_mistakes_are_told_at_once_and_nothing_is_made(images: World, tmp_path: Path) -> None:
    with pytest.raises(fedsgt.InputError) as error:
        compared(images, tmp_path / "out", systems=["fedsgd"], stream="slice", requests=0, seeds=[1, 1])
    assert len(error.value.mistakes) == 4
    with pytest.raises(fedsgt.InputError, match="backbone"):
        compared(images, tmp_path / "out", overrides=["model.backbone=./nowhere"])
    assert not (tmp_path / "out" / "runs").exists()


def test_lines_of_progress(images: World, capsys: pytest.CaptureFixture[str]) -> None:
    compared(images, None, systems=["fedavg"], requests=1, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("fedavg, seed 0, after 0 requests: ")
    assert lines[1].startswith("fedavg, seed 0, after 1 request: nothing is served; about ")
