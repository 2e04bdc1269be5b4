"""The earlier system and the shadow models: what they learn, and that nothing of them is left."""

from __future__ import annotations

import stat

import numpy as np
import pytest
from forgetting_world import QUICK, attacked_of, group_deleted
from tiny_deletions import bytes_of
from tiny_world import Quiet

from fedsgt.build.train import train
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.task import Task
from fedsgt.errors import InputError
from fedsgt.forgetting.measure import measure
from fedsgt.forgetting.shadow_models import EarlierSystem, ShadowModels
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.work import WORK, work_folders
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


def test_surviving_modules_are_not_trained_again(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without group 0, three of the nine modules of the rotations 012, 201, 120 are left."""
    group_deleted(folder, 0)
    attacked, inner = attacked_of(folder), InProcess.submit
    before = EarlierSystem.of(folder, folder.description, attacked, "all")
    shadows = ShadowModels.of(before, attacked, QUICK["shadows"], QUICK["shadow_rounds"], seed=0)
    groups = {target.key: target.groups for target in before.targets}
    trained: list[str] = []

    def submit(self: InProcess, task: Task) -> None:
        trained.append(task.key)
        inner(self, task)

    monkeypatch.setattr(InProcess, "submit", submit)
    measure(folder, **(QUICK | {"strategy": "all"}))
    keys = list(dict.fromkeys(trained))
    assert keys[-4:] == [target.key for target in shadows.targets]
    expected = [(0,), (0, 1), (0, 1, 2), (1, 2, 0), (2, 0), (2, 0, 1)]
    assert sorted(groups[key] for key in keys[:-4]) == expected


def test_shadow_models_learn_retained_records_and_half_of_the_attacked(folder: RunFolder) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,)), Deletion("c2")])
    attacked = attacked_of(folder, limit=5)
    before = EarlierSystem.of(folder, folder.description, attacked, "long")
    shadows = ShadowModels.of(before, attacked, 6, 2, seed=1)
    retained = {record.content for client in attacked.left.local for record in client.records}
    assert len(retained) == sum(len(client.records) for client in attacked.left.local)
    assert attacked.count == 5
    setup_slices = {client.name: client.slices for client in attacked.whole.local}
    for number, target in enumerate(shadows.targets):
        learnt = [
            record.content
            for name, chosen in target.slices.items()
            for index in chosen
            for record in shadows.slices[name][index - setup_slices[name]].records
        ]
        half = {attacked.records[row].content for row in np.flatnonzero(shadows.inside[number])}
        assert len(learnt) == len(set(learnt))
        assert set(learnt) == retained | half
        assert target.parents == ()
    assert shadows.records == 6 * len(retained) + 6 * 5
    assert len({target.key for target in shadows.targets}) == 6


def test_every_shadow_model_of_every_seed_is_another(folder: RunFolder) -> None:
    """Models that learn the same half, as some must with so few records, differ too."""
    unlearn(folder, [Deletion("c0", slices=(0,))])
    attacked = attacked_of(folder, limit=1)
    before = EarlierSystem.of(folder, folder.description, attacked, "long")
    drawn = [ShadowModels.of(before, attacked, 4, 1, seed) for seed in range(8)]
    assert len({target.key for shadows in drawn for target in shadows.targets}) == 4 * 8


def test_a_group_that_left_the_plan_was_there_before(folder: RunFolder) -> None:
    """All records of group 2 are deleted, and the run is trained again without it."""
    whole = sum(sum(client.records) for client in folder.description.clients)
    group_deleted(folder, 2)
    again = train(folder.config, folder.path, Quiet())
    assert all(2 not in order for order in again.description.sequences)
    gone = whole - sum(sum(client.records) for client in again.description.clients)
    attacked = attacked_of(again)
    before = EarlierSystem.of(again, again.live().description, attacked, "all")
    assert [prefix for _, prefix, _ in before.chosen] == [(0, 1, 2), (1, 0, 2)]
    found = measure(again, **QUICK)
    assert found.deleted == gone
    assert all(attack.after is not None for attack in found.attacks.values())


def test_the_folder_is_private_and_gone_whatever_happens(folder: RunFolder) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,))])
    before = bytes_of(folder.path)
    seen: list[tuple[int, int]] = []

    def look(share: float) -> None:
        (made,) = work_folders(folder.path)
        seen.append((stat.S_IMODE(made.stat().st_mode), len(list(made.rglob("*.safetensors")))))

    measure(folder, **QUICK, progress=look)
    assert {mode for mode, _ in seen} == {0o700}
    assert seen[-1][1] > 3

    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(folder, **QUICK, progress=stop)
    assert not (folder.path / WORK).exists()
    assert bytes_of(folder.path) == before


def test_a_deletion_that_comes_meanwhile_stops_it(folder: RunFolder) -> None:
    """The deletion does not wait for the experiment: when it returns, nothing of it is there."""
    unlearn(folder, [Deletion("c0", slices=(0,))])
    shares: list[float] = []

    def one_more(share: float) -> None:
        shares.append(share)
        (made,) = work_folders(folder.path)
        assert made.is_dir()
        unlearn(open_run(folder.path), [Deletion("c1", slices=(0,))])
        assert made.read_bytes() == b""

    with pytest.raises(InputError, match="a deletion came in meanwhile; start again"):
        measure(folder, **QUICK, progress=one_more)
    assert len(shares) == 1
    assert not (folder.path / WORK).exists()
