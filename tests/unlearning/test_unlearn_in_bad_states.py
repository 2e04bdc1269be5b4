"""Troubles of a run when a request comes: each is told in one line, and nothing is half done."""

from __future__ import annotations

import errno
import os
import resource
import sys
import tempfile
import traceback
from pathlib import Path

import pytest
from databases import postgres_url, sqlite_url, tamper
from tiny_deletions import copied, prefixes, problems, trained_run
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.errors import InputError
from fedsgt.ledger.ledger import CorruptLedger, LedgerError, RolledBack, file_url
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.serving.predictor import Predictor
from fedsgt.store import Folder
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import recover, unfinished, unlearn


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run")


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


def fresh(folder: RunFolder) -> RunFolder:
    """Open the run as another process sees it."""
    return open_run(folder.path)


def test_a_corrupt_ledger_row(folder: RunFolder) -> None:
    unlearn(folder, [Deletion("c0")])
    folder.ledger.close()
    url = file_url(folder.path / "ledger.sqlite")
    tamper(
        url,
        """UPDATE fedsgt_ledger SET body = replace(body, '"groups":[', '"groups":[7,') WHERE position = 3""",
    )
    for attempt in (lambda: fresh(folder).live(), lambda: unlearn(fresh(folder), [Deletion("c1")])):
        with pytest.raises(CorruptLedger, match="3"):
            attempt()


def test_a_ledger_cut_off_after_a_request(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chain is whole; the mark, and on a machine without one the certificate, know better."""
    answer = unlearn(folder, [Deletion("c0")])
    folder.ledger.close()
    tamper(file_url(folder.path / "ledger.sqlite"), "DELETE FROM fedsgt_ledger WHERE position > 2")
    with pytest.raises(RolledBack, match=f"lacks 1 deletion request, no. {answer.position}"):
        fresh(folder).live()
    monkeypatch.setenv("FEDSGT_STATE", str(folder.path.parent / "elsewhere"))
    with pytest.raises(CorruptLedger, match=f"ends at 2, but a certificate of request no. {answer.position}"):
        fresh(folder).live()


def test_a_missing_ledger_is_no_empty_ledger(folder: RunFolder) -> None:
    (folder.path / "ledger.sqlite").unlink()
    with pytest.raises(LedgerError, match=r"ledger.*ledger\.sqlite"):
        fresh(folder).live()
    assert not (folder.path / "ledger.sqlite").exists()


def test_a_missing_description(folder: RunFolder) -> None:
    (folder.path / "run.json").unlink()
    with pytest.raises(InputError, match=r"it has no run\.json"):
        fresh(folder)


@pytest.mark.parametrize("name", ["module.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_truncated_or_missing_module_is_not_served_and_is_destroyed_with_the_rest(
    name: str, damage: str, folder: RunFolder, images: World
) -> None:
    """Sequence 201 loses its last module by damage, then the request takes the rest of group 2's."""
    place = folder.path / "modules" / folder.description.keys[2, 0, 1] / name
    if damage == "cut":
        place.write_bytes(place.read_bytes()[:20])
    else:
        place.unlink()
    content = [(row.content,) for row in images.rows[:2]]
    kind = [finding.name.rpartition("/")[2] for finding in problems(folder)]
    assert (
        kind
        == {
            ("cut", "module.safetensors"): ["manifest.json", "module.safetensors"],
            ("cut", "manifest.json"): ["manifest.json", "module.safetensors"],
            ("gone", "module.safetensors"): ["manifest.json"],
            ("gone", "manifest.json"): ["module.safetensors"],
        }[damage, name]
    )
    answer = Predictor(fresh(folder)).predict(content)
    assert all(served.groups != (2, 0, 1) for served in answer.sequences)
    slices = [index for index, group in enumerate(folder.description.groups_of[0]) if group == 2]
    after = fresh(folder)
    unlearn(after, [Deletion("c0", slices=tuple(slices))])
    assert not place.exists()
    assert problems(after) == []


def test_two_servers_on_one_run(folder: RunFolder, images: World) -> None:
    """Two others delete; each server serves what both deletions left: group 0 alone."""
    content = [(row.content,) for row in images.rows[:2]]
    servers = [Predictor(fresh(folder)) for _ in range(2)]
    assert all(len(server.predict(content).sequences) == 3 for server in servers)
    unlearn(fresh(folder), [Deletion("c0", slices=(0,))])
    unlearn(fresh(folder), [Deletion("c0", slices=(1,))])
    live = fresh(folder).live()
    assert live.dead == {1, 2}
    for server in servers:
        answer = server.predict(content)
        assert [served.groups for served in answer.sequences] == [(0,)]
        assert answer.position == live.position


def test_a_full_disk_while_the_ledger_is_written(folder: RunFolder) -> None:
    """Nothing is answered, nothing is in force; with room again the same request goes through."""
    folder.live()  # opened while there was room
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(LedgerError, match="cannot write ledger") as raised:
            unlearn(folder, [Deletion("c0")], key="k")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(raised.value)
    assert fresh(folder).live().requests == ()
    assert all(prefixes(fresh(folder)))
    assert not unlearn(folder, [Deletion("c0")], key="k").repeated
    assert problems(folder) == []


def test_a_disk_that_refuses_while_files_are_destroyed(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request stands and is in force; the receipt says so, and the next command finishes it."""
    inner = Folder.delete
    calls = [0]

    def broken(self: Folder, name: str) -> None:
        calls[0] += 1
        if calls[0] > 2:
            raise OSError(errno.EROFS, "Read-only file system")
        inner(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "delete", broken)
        receipt = unlearn(folder, [Deletion("c0")])
    assert receipt.in_force
    assert receipt.certificate is None
    assert receipt.pending is not None
    assert "its destruction is pending because Read-only file system" in receipt.pending
    after = fresh(folder)
    (request,) = unfinished(after)
    assert after.live().dead == set(request.body["groups"])
    assert recover(after).completed == [request.position]
    assert problems(after) == []


def test_a_read_only_run(folder: RunFolder, tmp_path: Path) -> None:
    """A user who may not write there gets one line, and nothing changes."""
    unlearn(copied(folder.path, tmp_path / "first"), [Deletion("c0")])  # imports all that it takes
    with tempfile.TemporaryDirectory() as shared:  # pytest's own folders are closed to others
        os.chmod(shared, 0o755)
        there = copied(folder.path, Path(shared) / "run")
        for place in (there.path, *there.path.rglob("*")):
            place.chmod(0o555 if place.is_dir() else 0o444)
        before = (there.path / "ledger.sqlite").read_bytes()
        child = os.fork()
        if child == 0:  # this process gives up its rights, and ends without any of pytest's doing
            os._exit(_refused(there.path))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (there.path / "ledger.sqlite").read_bytes() == before
        for place in (there.path, *there.path.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)
        assert fresh(there).live().requests == ()


def _refused(path: Path) -> int:
    """Whether a request is refused in one line, as an exit code."""
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        unlearn(open_run(path), [Deletion("c0")])
    except InputError as error:
        print(error, file=sys.stderr)
        return int("\n" in str(error))
    except BaseException:
        traceback.print_exc()
    return 2


@pytest.mark.parametrize("kind", ["postgresql", "sqlite elsewhere"])
def test_a_ledger_elsewhere(kind: str, images: World, tmp_path: Path) -> None:
    url = postgres_url() if kind == "postgresql" else sqlite_url(tmp_path)
    path = trained_run(images, tmp_path / "run", (f"unlearning.ledger={url}",))
    folder = open_run(path)
    assert not (path / "ledger.sqlite").exists()
    unlearn(folder, [Deletion("c0")], key="k")
    assert unlearn(fresh(folder), [Deletion("c0")], key="k").repeated
    assert problems(fresh(folder)) == []
    assert fresh(folder).live().dead == set(folder.description.groups_of[0])
    with pytest.raises(InputError, match=r"unlearning\.ledger"):
        train(images.config(), path, Quiet())


def test_modules_in_an_object_store(images: World, tmp_path: Path) -> None:
    path = trained_run(images, tmp_path / "run", (f"store.url=file://{tmp_path / 'objects'}",))
    folder = open_run(path)
    unlearn(folder, [Deletion("c0")])
    dead = set(folder.description.groups_of[0])
    left = {entry.key for entry in folder.description.modules if dead.isdisjoint(entry.groups)}
    assert {place.parent.name for place in (tmp_path / "objects").rglob("*.safetensors")} == left
    assert problems(folder) == []
    (tmp_path / "objects" / "modules" / ("1" * 64)).mkdir()
    (tmp_path / "objects" / "modules" / ("1" * 64) / "module.safetensors").write_text("left")
    assert [finding.problem for finding in problems(folder)] == ["no module of this run"]
