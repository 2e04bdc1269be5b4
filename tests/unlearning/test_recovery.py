"""A request that cannot be completed is refused before it counts, or is in force and says what is pending."""

from __future__ import annotations

import errno
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from tiny_deletions import bytes_of, copied, problems, trained_run
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.certificates.certify import certificate_path
from fedsgt.certificates.keys import PublicKey, SigningKey
from fedsgt.certificates.signatures import read_certificate
from fedsgt.errors import InputError
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import LedgerError, Writer
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.store import Folder
from fedsgt.unlearning import recovery
from fedsgt.unlearning.recovery import PendingWork, Recovery, pending_work, recover
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import OutcomeUnknown, Stopped, accept, complete, unlearn

REFUSED = "nothing was changed, the deletion is not in force"


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run")


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


def slice_in(folder: RunFolder, group: int) -> Deletion:
    """Return the deletion of a slice of this group."""
    for number, groups in enumerate(folder.description.groups_of):
        if group in groups:
            return Deletion(folder.description.clients[number].name, slices=(groups.index(group),))
    raise AssertionError


# --- before acceptance


def open_to_others(folder: RunFolder) -> None:
    SigningKey.make(folder.path / "signing.key")
    (folder.path / "signing.key").chmod(0o644)


def corrupt(folder: RunFolder) -> None:
    SigningKey.make(folder.path / "signing.key")
    (folder.path / "signing.key").write_text("-----BEGIN PRIVATE KEY-----\nnonsense\n")


def locked(folder: RunFolder) -> None:
    key, path = SigningKey.make(folder.path / "signing.key"), folder.path / "signing.key"
    hidden = serialization.BestAvailableEncryption(b"secret")
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden
    path.write_bytes(key.key.private_bytes(*form))


def linked(folder: RunFolder) -> None:
    (folder.path / "tensorboard" / "x").symlink_to("/nowhere")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (open_to_others, r"signing\.key: mode 644 lets others at the key"),
        (corrupt, r"signing\.key: not a private key"),
        (locked, r"signing\.key: this key has a password"),
        (linked, "tensorboard/x: a symbolic link"),
    ],
)
def test_what_can_be_checked_is_checked_before_anything_is_in_force(
    harm: Callable[[RunFolder], None], said: str, folder: RunFolder
) -> None:
    (folder.path / "tensorboard").mkdir(exist_ok=True)
    harm(folder)
    before, head = bytes_of(folder.path), folder.ledger.head()
    with pytest.raises(InputError, match=rf"{said}.*; {REFUSED}$"):
        unlearn(folder, [Deletion("c0")])
    assert (bytes_of(folder.path), folder.ledger.head()) == (before, head)
    assert pending_work(folder) == []


@pytest.mark.parametrize("place", ["certificates", "modules", "store.lock"])
def test_places_that_may_not_be_written_are_found_before(place: str, folder: RunFolder) -> None:
    with tempfile.TemporaryDirectory() as shared:  # pytest's own folders are closed to others
        os.chmod(shared, 0o755)
        there = copied(folder.path, Path(shared) / "run")
        (there.path / "certificates").mkdir()
        (there.path / "store.lock").touch()
        for path in (there.path, *there.path.rglob("*")):
            os.chown(path, 65534, 65534)
        (there.path / place).chmod(0o555)
        child = os.fork()
        if child == 0:  # this process gives up its rights, and ends without any of pytest's doing
            os._exit(refused_as_nobody(there.path, place))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert open_run(there.path).live().requests == ()


def refused_as_nobody(path: Path, place: str) -> int:
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        unlearn(open_run(path), [Deletion("c0")])
    except InputError as error:
        print(error, file=sys.stderr)
        return int(f"{place}: this user may not write there" not in str(error) or REFUSED not in str(error))
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    return 2


# --- the commit


def fail_commit(patch: pytest.MonkeyPatch, really: bool) -> None:
    """Let the next commit end with an error, after it was done or before."""
    inner, calls = Writer._commit, [0]

    def broken(self: Writer) -> None:
        calls[0] += 1
        if calls[0] > 1:
            return inner(self)
        if really:
            inner(self)
        raise LedgerError("cannot write ledger: the connection was lost")

    patch.setattr(Writer, "_commit", broken)


@pytest.mark.parametrize("key", [None, "k"])
def test_a_commit_whose_answer_was_lost_counts(
    key: str | None, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail_commit(patch, really=True)
        receipt = unlearn(folder, [Deletion("c0")], key=key)
    assert [request.position for request in folder.live().requests] == [receipt.position]
    assert receipt.certificate is not None
    assert problems(folder) == []


def test_a_commit_that_failed_leaves_nothing(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        fail_commit(patch, really=False)
        with pytest.raises(LedgerError, match=f"the connection was lost; {REFUSED}$"):
            unlearn(folder, [Deletion("c0")])
    assert folder.live().requests == ()


def test_a_commit_that_nobody_can_look_up_is_said_to_be_unknown(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, calls = Writer.find, [0]

    def once(self: Writer, name: str) -> Any:
        calls[0] += 1
        if calls[0] > 1:
            raise LedgerError("cannot read ledger")
        return inner(self, name)

    with monkeypatch.context() as patch:
        fail_commit(patch, really=True)
        patch.setattr(Writer, "find", once)
        with pytest.raises(OutcomeUnknown, match=r"not known whether the deletion is in force.*same --key"):
            unlearn(folder, [Deletion("c0")], key="k")
    repeated = unlearn(folder, [Deletion("c0")], key="k")
    assert repeated.repeated
    assert repeated.certificate is not None


# --- after acceptance


def test_a_key_that_became_unreadable(folder: RunFolder) -> None:
    SigningKey.make(folder.path / "signing.key")
    accepted = accept(folder, [Deletion("c0", slices=(0,))], key="k")
    (folder.path / "signing.key").chmod(0o644)
    receipt = complete(folder, accepted)
    assert receipt.in_force
    assert receipt.certificate is None
    assert receipt.pending is not None
    assert receipt.pending.startswith("its certificate is pending because ")
    assert "mode 644" in receipt.pending
    (work,) = pending_work(folder)
    assert (work.position, work.what) == (receipt.position, "certificate")
    assert "mode 644" in work.reason
    (folder.path / "signing.key").chmod(0o600)
    again = unlearn(folder, [Deletion("c0", slices=(0,))], key="k")
    assert (again.repeated, again.pending) == (True, None)
    assert again.certificate is not None
    assert pending_work(folder) == []
    assert problems(folder) == []


@contextmanager
def no_room() -> Iterator[None]:
    """Let every file end at 100 bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_after_acceptance(folder: RunFolder) -> None:
    accepted = accept(folder, [Deletion("c0")], key="k")
    with no_room():
        receipt = complete(folder, accepted)
    assert receipt.in_force
    assert receipt.pending is not None
    assert "its destruction is pending because" in receipt.pending
    assert "bytes are still on disk" in receipt.pending
    assert folder.live().dead == set(receipt.groups)
    assert recover(folder) == Recovery([receipt.position])
    assert problems(folder) == []


def test_no_room_for_the_certificate(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fedsgt.certificates.signatures.write_once", full)
        receipt = unlearn(folder, [Deletion("c0")])
    assert receipt.pending == "its certificate is pending because No space left on device"
    assert recover(folder) == Recovery([receipt.position])
    assert certificate_path(folder, receipt.position).is_file()


def test_a_link_that_appears_after_acceptance(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("somebody's")
    accepted = accept(folder, [Deletion("c0")])
    (folder.path / "tensorboard").mkdir(exist_ok=True)
    for name in ("file", "folder"):
        (folder.path / "tensorboard" / name).symlink_to(
            tmp_path / "elsewhere" if name == "file" else tmp_path
        )
    receipt = complete(folder, accepted)
    assert receipt.pending is None
    assert receipt.certificate is not None
    certificate = read_certificate(receipt.certificate, PublicKey.read(folder.path / "signing.pub"))
    assert [one.kind for one in certificate.destroyed].count("link") == 2
    assert (tmp_path / "elsewhere").read_text() == "somebody's"


def undeletable(patch: pytest.MonkeyPatch, key: str) -> None:
    """Let the disk refuse to remove the files of one module."""
    inner = Folder.delete

    def refuse(self: Folder, name: str) -> None:
        if key in name:
            raise OSError(errno.EROFS, "Read-only file system", name)
        inner(self, name)

    patch.setattr(Folder, "delete", refuse)


def test_others_go_on_while_one_cannot_be_destroyed(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Module 1 alone is stuck: all other files of the first request go, and the second is complete."""
    key = folder.description.keys[1,]
    with monkeypatch.context() as patch:
        undeletable(patch, key)
        first = unlearn(folder, [slice_in(folder, 1)])
        second = unlearn(folder, [slice_in(folder, 2)])
        assert first.pending is not None
        assert f"because modules/{key}/manifest.json: Read-only file system" in first.pending
        assert second.pending is None
        assert second.certificate is not None
        assert [work.position for work in pending_work(folder)] == [first.position]
        assert {path.name for path in (folder.path / "modules").iterdir()} == {
            key,
            *(entry.key for entry in folder.live().modules()),
        }
    assert recover(folder) == Recovery([first.position])
    assert problems(folder) == []


def test_no_training_while_data_is_not_destroyed(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so at once, and does not try for ever."""
    with monkeypatch.context() as patch:
        undeletable(patch, folder.description.keys[1,])
        receipt = unlearn(folder, [slice_in(folder, 1)])
        said = f"data of request no. {receipt.position} is not destroyed: .*Read-only file system"
        with pytest.raises(InputError, match=said):
            train(folder.config, folder.path, Quiet(), recover)
    train(folder.config, folder.path, Quiet(), recover)
    assert problems(open_run(folder.path)) == []


def test_training_goes_on_without_a_certificate_and_it_can_be_made_later(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group that was hit is served again by then, with another fingerprint, which is no contradiction."""
    was = folder.description.group_fingerprints[1]

    def unable(*_: object) -> None:
        raise InputError("no key")

    with monkeypatch.context() as patch:
        patch.setattr(recovery, "certify", unable)
        receipt = unlearn(folder, [slice_in(folder, 1)])
        assert receipt.pending == "its certificate is pending because no key"
        train(folder.config, folder.path, Quiet(), recover)
    after = open_run(folder.path)
    assert [work.what for work in pending_work(after)] == ["certificate"]
    assert recover(after) == Recovery([receipt.position])
    certificate = read_certificate(certificate_path(after, receipt.position), None)
    assert certificate.groups_hit == {"1": was}
    assert certificate.served.groups["1"] == after.description.group_fingerprints[1] != was
    assert problems(after) == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_stop_after_acceptance_says_that_it_is_in_force(
    stop: type[BaseException], folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise stop

    with monkeypatch.context() as patch:
        patch.setattr(recovery, "destroy", stopped)
        with pytest.raises(Stopped) as raised:
            unlearn(folder, [Deletion("c0")])
    assert raised.value.receipt.position == folder.live().last_request
    assert raised.value.receipt.pending is not None
    with monkeypatch.context() as patch:
        patch.setattr("fedsgt.unlearning.unlearn.check_can_complete", stopped)
        with pytest.raises(stop) as other:
            unlearn(folder, [Deletion("c1")])
    assert not isinstance(other.value, Stopped)
    assert len(folder.live().requests) == 1


# --- keys


def test_a_lost_key_is_not_replaced_in_silence(folder: RunFolder) -> None:
    first = unlearn(folder, [Deletion("c0", slices=(0,))])
    old = PublicKey.read(folder.path / "signing.pub")
    (folder.path / "signing.key").unlink()
    second = unlearn(folder, [Deletion("c1", slices=(0,))])
    new = PublicKey.read(folder.path / "signing.pub")
    assert [entry.body for entry in folder.ledger.entries() if entry.kind == Kind.KEY] == [
        {"key": old.id, "previous": None, "reason": "first"},
        {"key": new.id, "previous": old.id, "reason": "the key file was missing"},
    ]
    assert first.key_changes == ()
    (said,) = second.key_changes
    assert f"signing-{old.id[:16]}.pub" in said
    assert "the key file was missing" in said
    assert second.certificate is not None
    certificate = read_certificate(second.certificate, new)
    assert [entry.key for entry in certificate.keys] == [old.id, new.id]
    with pytest.raises(InputError, match=r"which the key given does not check, says that the run changed"):
        read_certificate(second.certificate, old)
    assert problems(folder) == []


def test_a_lost_key_of_a_run_whose_ledger_names_none(folder: RunFolder) -> None:
    SigningKey.make(folder.path / "old.key")
    old = SigningKey.read(folder.path / "old.key")
    (folder.path / "old.key").unlink()
    (folder.path / "signing.pub").write_text(old.public_text)
    unlearn(folder, [Deletion("c0")])
    (entry,) = (entry for entry in folder.ledger.entries() if entry.kind == Kind.KEY)
    assert (entry.body["previous"], entry.body["reason"]) == (old.public_id, "the key file was missing")


def test_words_of_pending_work() -> None:
    assert PendingWork(3, "certificate", "x").words() == "its certificate is pending because x"
    assert "pending as it was cut short; its modules" in PendingWork(3, "destruction", "").words()
