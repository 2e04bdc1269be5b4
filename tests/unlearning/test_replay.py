"""A run restored from a backup is refused, until the certificates that others hold are replayed into it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command import fedsgt
from databases import tamper
from paper_run import delete, describe, fill, paper_run
from tiny_deletions import prefixes, problems, record_in, trained_run
from tiny_world import World

from fedsgt.build.statistics import renew_statistics
from fedsgt.errors import InputError
from fedsgt.ledger.ledger import RolledBack, file_url
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.state import NOTHING_DELETED
from fedsgt.runs.statistics import StatisticName, present_statistics, statistics_in_force
from fedsgt.unlearning.replay import Replayed, replay
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, unfinished, unlearn

ROTATIONS = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]


class Scene:
    """A run with one deletion, a backup of it, two deletions more, and the certificates of those."""

    def __init__(self, root: Path) -> None:
        self.path, self.backup, self.kept = root / "run", root / "backup", root / "kept"
        folder = paper_run(self.path, describe(ROTATIONS, [5, 5, 5]))
        fill(folder)
        delete(folder, 2)
        folder.ledger.close()
        shutil.copytree(self.path, self.backup)
        folder = open_run(self.path)
        self.positions = [delete(folder, 0).position, delete(folder, 2, index=1).position]
        folder.ledger.close()
        shutil.copytree(self.path / "certificates", self.kept)
        self.files = [self.kept / f"{position:06d}.json" for position in self.positions]
        shutil.rmtree(self.path)
        shutil.copytree(self.backup, self.path)

    def replay(self, *files: Path, key: Path | None = None, accept_missing: bool = False) -> Replayed:
        return replay(open_run(self.path, restoring=True), files, key, accept_missing)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def entries(path: Path) -> list[tuple[str, dict[str, object]]]:
    return [(e.kind, e.body) for e in open_run(path, restoring=True).ledger.entries()]


def test_a_restored_backup_is_refused_by_every_command(scene: Scene) -> None:
    run = str(scene.path)
    for command in (
        ["status", run],
        ["predict", run, "--test"],
        ["audit", run],
        ["unlearn", run, "--client", "client-1", "--all"],
        ["copy", run, f"{run}.copy"],
    ):
        done = fedsgt(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert "older than it has been" in done.stderr
        first, second = scene.positions
        assert f"lacks 2 deletion requests, no. {first}, {second};" in done.stderr
        assert "fedsgt replay RUN CERTIFICATES" in done.stderr


def test_the_certificates_bring_the_deletions_back(scene: Scene) -> None:
    found = scene.replay(*reversed(scene.files))
    folder = open_run(scene.path)
    assert folder.live().dead == {0, 2}
    assert prefixes(folder) == [(), (), (1,)]
    assert (unfinished(folder), problems(folder)) == ([], [])
    assert sorted(found.receipts) == scene.positions
    last = folder.ledger.entries()[-1]
    assert (last.kind, last.body["replayed"], last.body["missing"]) == ("restored", scene.positions, [])
    assert last.body["mark"]["position"] >= 9
    parts = [part for request in folder.live().requests[1:] for part in request.body["parts"]]
    assert [(part["number"], part["slices"], part["count"]) for part in parts] == [(0, [0], 5), (2, [1], 5)]
    delete(folder, 1)
    assert open_run(scene.path).live().dead == {0, 1, 2}


def test_twice_changes_nothing(scene: Scene) -> None:
    scene.replay(*scene.files)
    before = entries(scene.path)
    scene.replay(*scene.files)
    assert entries(scene.path) == before
    open_run(scene.path)


def test_all_are_checked_before_anything_is_changed(scene: Scene, tmp_path: Path) -> None:
    before = entries(scene.path)
    forged = json.loads(scene.files[1].read_text())
    forged["body"]["request"]["parts"][0]["slices"] = [0]
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(forged))
    with pytest.raises(InputError, match=r"bad\.json: the signature does not hold.*nothing was changed"):
        scene.replay(scene.files[0], bad)
    other = paper_run(tmp_path / "other", describe(ROTATIONS, [5, 5, 5]))
    fill(other)
    foreign = delete(other, 0).certificate
    assert foreign is not None
    with pytest.raises(InputError, match="another run"):
        scene.replay(foreign, key=other.path / "signing.pub")
    assert entries(scene.path) == before
    with pytest.raises(RolledBack):
        open_run(scene.path)


def test_missing_certificates_are_named_and_must_be_accepted(scene: Scene) -> None:
    before = entries(scene.path)
    second = scene.positions[1]
    with pytest.raises(InputError, match=rf"requests no\. {second} were accepted before.*--accept-missing"):
        scene.replay(scene.files[0])
    assert entries(scene.path) == before
    scene.replay(scene.files[0], accept_missing=True)
    folder = open_run(scene.path)
    assert folder.live().dead == {0, 2}
    assert folder.ledger.entries()[-1].body["missing"] == [second]


def test_a_backup_that_lacks_no_request(scene: Scene, tmp_path: Path) -> None:
    """It is older all the same, and says so; a replay without certificates takes it as it is."""
    scene.replay(*scene.files)
    open_run(scene.path).ledger.close()
    shutil.copytree(scene.path, tmp_path / "again")
    folder = open_run(scene.path)
    fill(folder)
    folder.ledger.close()
    open_run(scene.path).ledger.close()
    with pytest.raises(RolledBack, match="it lacks no deletion request"):
        open_run(tmp_path / "again")
    found = replay(open_run(tmp_path / "again", restoring=True), [])
    assert (found.receipts, found.missing) == ({}, [])
    open_run(tmp_path / "again")


def test_a_backup_that_went_on_elsewhere_is_told_from_what_was_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a machine without the mark it was used, and has other requests at the same positions."""
    here = str(tmp_path / "elsewhere")
    with monkeypatch.context() as patch:
        patch.setenv("FEDSGT_STATE", here)
        folder = open_run(scene.path)
        assert delete(folder, 1).position == scene.positions[0]
        folder.ledger.close()
    first, second = scene.positions
    with pytest.raises(RolledBack, match=rf"lacks 2 deletion requests, no\. {first}, {second};"):
        open_run(scene.path)
    scene.replay(*scene.files)
    assert open_run(scene.path).live().dead == {0, 1, 2}


def test_a_ledger_that_alone_was_restored_uses_the_certificates_in_the_folder(scene: Scene) -> None:
    shutil.copytree(scene.kept, scene.path / "certificates", dirs_exist_ok=True)
    scene.replay()
    folder = open_run(scene.path)
    assert folder.live().dead == {0, 2}
    assert problems(folder) == []
    names = sorted(path.name for path in (scene.path / "certificates").iterdir())
    assert [len(name) for name in names].count(len("000006-0123456789abcdef.json")) == 2
    before = entries(scene.path)
    scene.replay()
    assert entries(scene.path) == before


def test_a_replay_that_was_stopped_goes_on(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    import fedsgt.unlearning.replay as module

    for name, step in (("complete", 1), ("_note", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                scene.replay(*scene.files)
        assert len(open_run(scene.path, restoring=True).live().requests) == 1 + step
        with pytest.raises(RolledBack):
            open_run(scene.path)
    scene.replay(*scene.files)
    folder = open_run(scene.path)
    assert folder.live().dead == {0, 2}
    assert (len(folder.live().requests), problems(folder)) == (3, [])
    assert folder.ledger.entries()[-1].body["replayed"] == scene.positions


def test_a_run_without_a_key_asks_for_one(tmp_path: Path) -> None:
    path = tmp_path / "run"
    folder = paper_run(path, describe(ROTATIONS, [5, 5, 5]))
    fill(folder)
    folder.ledger.close()
    shutil.copytree(path, tmp_path / "backup")
    answer = delete(open_run(path), 0)
    assert answer.certificate is not None
    restored = open_run(tmp_path / "backup", restoring=True)
    with pytest.raises(InputError, match=r"no signing\.pub yet; give the key .* with --key"):
        replay(restored, [answer.certificate])
    done = fedsgt("replay", str(restored.path), str(answer.certificate), "--key", str(path / "signing.pub"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"request no. {answer.position} applied, as no. {answer.position} now: ")
    assert open_run(restored.path).live().dead == {0}


def test_a_run_on_a_machine_that_has_no_mark(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSGT_STATE", str(scene.path.parent / "elsewhere"))
    scene.replay(*scene.files)
    folder = open_run(scene.path)
    assert folder.live().dead == {0, 2}
    assert folder.ledger.entries()[-1].body == {"mark": None, "replayed": scene.positions, "missing": []}
    open_run(scene.path)


def test_single_records_stay_deleted(images: World, tmp_path: Path) -> None:
    """Also when they were in several slices, of which a certificate tells no numbers."""
    path = trained_run(images, tmp_path / "run")
    shutil.copytree(path, tmp_path / "backup")
    folder = open_run(path)
    wanted = {record_in(images, folder, group, "c1")[1] for group in {*folder.description.groups_of[1]}}
    answer = unlearn(folder, [Deletion("c1", records=tuple(wanted))])
    assert answer.certificate is not None
    known, backup = folder.live(), tmp_path / "backup"
    replay(open_run(backup, restoring=True), [answer.certificate], key=path / "signing.pub")
    again = open_run(backup)
    assert again.live().dead == known.dead
    assert again.live().deleted == known.deleted
    with pytest.raises(RolledBack):
        folder.live()  # of two folders with one id, one serves at most
    assert problems(again) == []
    with pytest.raises(InputError, match="was deleted before"):
        accept(again, [Deletion("c1", records=(next(iter(wanted)),))])


def test_a_ledger_cut_with_sql(scene: Scene) -> None:
    scene.replay(*scene.files)
    folder: RunFolder = open_run(scene.path)
    head = folder.live().position
    folder.ledger.close()
    tamper(file_url(scene.path / "ledger.sqlite"), f"DELETE FROM fedsgt_ledger WHERE position > {head - 3}")
    with pytest.raises(RolledBack):
        open_run(scene.path)


def test_no_statistic_with_a_replayed_deletion_counts(images: World, tmp_path: Path) -> None:
    """The backup's statistics have the records; they end with the replay, and are destroyed."""
    path, backup = trained_run(images, tmp_path / "run", ["heads.solve=true"]), tmp_path / "backup"
    folder = open_run(path)
    unlearn(folder, [Deletion("c3", slices=(0,))])
    folder.ledger.close()
    shutil.copytree(path, backup)
    folder = open_run(path)
    client, record = record_in(images, folder, 1, "c0")
    answer = unlearn(folder, [Deletion(client, records=(record,))])
    assert answer.certificate is not None
    kept = shutil.copy(answer.certificate, tmp_path / "kept.json")
    folder.ledger.close()
    shutil.rmtree(path)
    shutil.copytree(backup, path)
    old = StatisticName(BARE, 0, NOTHING_DELETED.mark)
    assert (path / old.file).exists()
    replay(open_run(path, restoring=True), [Path(kept)])
    folder = open_run(path)
    there = [name for names in statistics_in_force(folder, folder.live()).values() for name in names]
    assert {name.client for name in there} == {1, 2}
    assert not (path / old.file).exists()
    assert problems(folder) == []
    assert renew_statistics(folder) == 2 * len({name.chain for name in there})
    assert StatisticName(BARE, 0, folder.live().mark_of(0)) in present_statistics(folder)
