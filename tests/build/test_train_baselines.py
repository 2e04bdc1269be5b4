"""The systems of the paper's comparison: isolated clusters, FedAvg by hand, and no client left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_deletions import copied
from tiny_world import CLIENTS, Quiet, Row, World, made, pgm, started, trained

from fedsgt.build.prepare import prepare
from fedsgt.build.train import check_participation, train
from fedsgt.config import Config, system_settings
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.rounds import client_seed
from fedsgt.engine.task import Task
from fedsgt.engine.worker import Worker
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.runs.folder import RunFolder
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import recover, unlearn


def system(world: World, name: str, *overrides: str) -> Config:
    return world.config(*system_settings(name), "training.rounds=2", *overrides)


def engine(run: Config, **changes: object) -> Config:
    return run.model_copy(update={"engine": run.engine.model_copy(update=changes)})


TWO = ("grouping.groups=2", "plan.shards=2")


# FedCIO.


def test_a_deletion_changes_the_bytes_of_its_cluster_and_of_no_other(images: World, tmp_path: Path) -> None:
    folder = train(system(images, "fedcio-retrain", *TWO), tmp_path / "run", Quiet())
    before, group_of = made(folder), folder.description.group_of
    assert set(before) == {(0,), (1,)}
    assert all(len(entry.groups) == 1 and entry.parent is None for entry in folder.description.modules)
    client = group_of.index(1)
    unlearn(folder, [Deletion(f"c{client}", records=(images.rows[client].id,))])
    assert [folder.modules.state(before[group][0]) for group in before] == ["present", "missing"]
    again = train(folder.config, folder.path, Quiet(), recover)
    after = made(again)
    assert again.description.group_of == group_of, "the clusters are those decided at first"
    assert after[(0,)] == before[(0,)]
    assert after[(1,)][0] != before[(1,)][0]
    assert after[(1,)][1] != before[(1,)][1]


def test_a_cluster_is_what_it_is_without_all_others(images: World, tmp_path: Path) -> None:
    """Other clients' records are in no way in a module: not by its start, not by its seeds."""
    settings = system(images, "fedcio", *TWO)
    folder = train(settings, tmp_path / "run", Quiet())
    outside = {f"c{number}" for number, group in enumerate(folder.description.group_of) if group == 1}
    other = images.without(row for row in images.rows if row.client in outside and int(row.id[1:]) > 11)
    known = folder.description
    changed = prepare(system(other, "fedcio", *TWO), known)
    first, second = (target.key for target in changed.targets)
    assert first == made(folder)[(0,)][0]
    assert second != made(folder)[(1,)][0]


def test_roots_begin_alike_only_from_a_common_start(images: World, tmp_path: Path) -> None:
    found: dict[str, list[Tensors]] = {}
    for start in ("own", "common"):
        prepared, folder = started(
            tmp_path / start, system(images, "fedcio", *TWO, f"training.start={start}")
        )
        with InProcess(prepared.setup(folder.modules, None), prepared.model.stack) as trains:
            tasks = [Task(target.key, target.parents, target.slices) for target in prepared.targets]
            found[start] = [trains.starter.start(task) for task in tasks]
    equal = {
        start: all(np.array_equal(one[name], other[name]) for name in one)
        for start, (one, other) in found.items()
    }
    assert equal == {"own": False, "common": True}


def skewed(images: World) -> World:
    """Six clients: 0 and 3 have the first label only, 1 and 4 the second, 2 and 5 the third."""
    rng = np.random.default_rng(4)
    rows = []
    for number in range(6 * 8):
        client = number % 6
        pixels = rng.integers(0, 120, 64, dtype=np.uint8)
        rows.append(Row(f"s{number:03d}", f"c{client}", client % 3, pgm(pixels)))
    return replace(images, rows=tuple(rows))


def test_clients_with_the_same_skew_are_clustered(images: World) -> None:
    settings = ("data.clients=6", "grouping.groups=3", "plan.shards=3")
    prepared = prepare(system(skewed(images), "fedcio", *settings))
    assert prepared.grouping.group_of.tolist() == [0, 1, 2, 0, 1, 2]
    split = prepare(system(skewed(images), "fedcio", *settings, "grouping.slices=2", "grouping.limits=1"))
    assert split.grouping.group_of.tolist() == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2], "clients stay whole"


# FedAvg.


def test_fedavg_is_rounds_of_local_updates_and_their_weighted_mean(images: World, tmp_path: Path) -> None:
    folder = train(system(images, "fedavg"), tmp_path / "run", Quiet())
    (entry,) = folder.description.modules
    prepared = prepare(folder.config, folder.description)
    worker = Worker(prepared.setup(folder.modules, None))
    clients = [f"c{number}" for number in range(CLIENTS)]
    task = Task(entry.key, (), dict.fromkeys(clients, (0,)))
    with InProcess(prepared.setup(folder.modules, None), prepared.model.stack) as trains:
        state = trains.starter.start(task)
    for number in (1, 2):
        seeds = {client: client_seed(replace(task, round=number), client) for client in clients}
        updates = [worker.update((), state, client, (0,), seeds[client]) for client in clients]
        weights = np.array([update.records for update in updates]) / sum(u.records for u in updates)
        state = {
            name: np.einsum("c,c...->...", weights, np.stack([u.state[name] for u in updates])).astype("f4")
            for name in state
        }
    found = folder.modules.get(entry.key)
    wanted = prepared.model.stack.finish(state)
    assert found.keys() == wanted.keys()
    assert all(found[name] == pytest.approx(wanted[name], abs=1e-5) for name in found)


# Nobody is lost.


@pytest.fixture(scope="module")
def averaged(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("averaged") / "run"
    trained(path, system(images, "fedretrain"))
    return path


def participants(folder: RunFolder) -> list[dict[str, int]]:
    (entry,) = folder.description.modules
    return folder.modules.manifest(entry.key).participants


def test_who_retrains_has_every_client_and_all_that_is_left(
    averaged: Path, images: World, tmp_path: Path
) -> None:
    folder = copied(averaged, tmp_path / "run")
    assert participants(folder) == [{"c0": 12, "c1": 12, "c2": 12, "c3": 12}] * 2
    own = [row.id for row in images.rows if row.client == "c1"]
    unlearn(folder, [Deletion("c1", records=tuple(own[:5]))])
    folder = train(folder.config, folder.path, Quiet(), recover)
    assert participants(folder) == [{"c0": 12, "c1": 7, "c2": 12, "c3": 12}] * 2
    unlearn(folder, [Deletion("c1")])
    folder = train(folder.config, folder.path, Quiet(), recover)
    assert participants(folder) == [{"c0": 12, "c2": 12, "c3": 12}] * 2
    check_participation(folder)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"c0": 12, "c1": 12, "c3": 12}, "client c2 took part with 0 records, but holds 12 of its groups"),
        ({"c0": 12, "c1": 11, "c2": 12, "c3": 12}, "client c1 took part with 11 records, but holds 12"),
        (
            {"c0": 12, "c1": 12, "c2": 12, "c3": 12, "c9": 1},
            "client c9 took part with 1 record, but holds 0",
        ),
    ],
)
def test_a_manifest_that_lacks_somebody_is_found(
    averaged: Path, tmp_path: Path, told: dict[str, int], message: str
) -> None:
    folder = copied(averaged, tmp_path / "run")
    (entry,) = folder.description.modules
    file = folder.path / "modules" / entry.key / "manifest.json"
    said = json.loads(file.read_text())
    said["participants"][1] = told
    file.write_text(json.dumps(said, sort_keys=True, indent=2, ensure_ascii=False) + "\n")
    with pytest.raises(InputError, match=f"^module {entry.key[:12]}, round 2: {message}"):
        check_participation(folder)


def test_a_build_that_loses_a_client_says_so(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = InProcess.submit

    def lossy(trains: InProcess, task: Task) -> None:
        kept = {client: slices for client, slices in task.slices.items() if client != "c3"}
        submit(trains, replace(task, slices=kept))

    run, path = system(images, "fedavg"), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(InProcess, "submit", lossy)
        with pytest.raises(InputError, match="round 1: client c3 took part with 0 records, but holds 12"):
            train(run, path, Quiet())
    with pytest.raises(InputError, match="client c3"):
        train(run, path, Quiet())  # nor is it well when there is nothing left to train
    train(engine(run, absent="go-on"), path, Quiet())
