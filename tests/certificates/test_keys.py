"""A key file is whole and private, is never replaced, and is one key for all that ask at once."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certificates import KEY
from fedsgt.certificates.keys import PublicKey, SigningKey
from fedsgt.errors import InputError
from fedsgt.store import Folder


def pem(key: Any, form: str = "private", password: bytes | None = None) -> bytes:
    if form == "public":
        public: bytes = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return public
    hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
    return private


def test_a_key_is_read_as_it_was_made(tmp_path: Path) -> None:
    made = SigningKey.make(tmp_path / "key.pem")
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    read_again = SigningKey.read_or_make(tmp_path / "key.pem")
    assert read_again.public_id == SigningKey.read(tmp_path / "key.pem").public_id == made.public_id
    assert (tmp_path / "key.pem").read_bytes() == pem(made.key)
    (tmp_path / "public.pem").write_text(made.public_text)
    assert PublicKey.read(tmp_path / "public.pem").id == made.public_id
    assert sorted(os.listdir(tmp_path)) == ["key.pem", "public.pem"]


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    SigningKey.make(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"key\.pem: already there"):
        SigningKey.make(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["key.pem"]


def test_a_key_is_private_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append(stat.S_IMODE(os.fstat(handle).st_mode)))
    before = os.umask(0)
    try:
        SigningKey.make(tmp_path / "key.pem")
    finally:
        os.umask(before)
    assert seen[0] == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "my key.pem"
    SigningKey.make(path)
    path.chmod(mode)
    for take in (SigningKey.read, SigningKey.read_or_make):
        with pytest.raises(InputError, match=f"mode {mode:o} .* chmod 600 '.*my key.pem'"):
            take(path)


OTHER_KIND = ec.generate_private_key(ec.SECP256R1())
WRONG_PRIVATE: dict[str, tuple[bytes, str]] = {
    "text": (b"hello", "not a private key"),
    "empty": (b"", "not a private key"),
    "half": (pem(KEY.key)[:60], "not a private key"),
    "public": (KEY.public_text.encode(), "not a private key"),
    "password": (pem(KEY.key, password=b"x"), "has a password"),
    "other kind": (pem(OTHER_KIND), "of another kind"),
    "huge": (b"-" * 2**17, "larger than"),
}
WRONG_PUBLIC: dict[str, tuple[bytes, str]] = {
    "text": (b"hello", "not a public key"),
    "half": (KEY.public_text.encode()[:50], "not a public key"),
    "private": (pem(KEY.key), "holds a private key"),
    "private with password": (pem(KEY.key, password=b"x"), "holds a private key"),
    "other kind": (pem(OTHER_KIND, "public"), "of another kind"),
    "huge": (b"-" * 2**17, "larger than"),
}


@pytest.mark.parametrize(
    ("read_key", "wrong"), [(SigningKey.read, WRONG_PRIVATE), (PublicKey.read, WRONG_PUBLIC)]
)
def test_what_is_no_key_is_named_in_one_line(
    tmp_path: Path, read_key: Callable[[Path], object], wrong: dict[str, tuple[bytes, str]]
) -> None:
    path = tmp_path / "key"
    path.touch(mode=0o600)
    for data, said in wrong.values():
        path.write_bytes(data)
        with pytest.raises(InputError, match=said) as error:
            read_key(path)
        assert str(error.value).startswith(f"{path}: ")
        assert "\n" not in str(error.value)


def test_places_where_there_can_be_no_key(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none: cannot read it \(No such file"):
        SigningKey.read(tmp_path / "none")
    with pytest.raises(InputError, match="cannot read it"):
        SigningKey.read_or_make(tmp_path)
    with pytest.raises(InputError, match=r"cannot write it \(No such file"):
        SigningKey.read_or_make(tmp_path / "no" / "key")


AT_ONCE = """
import os, sys, time
from pathlib import Path
from fedsgt.certificates.keys import SigningKey
print("ready", flush=True)
for path in sys.stdin:
    print(SigningKey.read_or_make(Path(path.strip())).public_id, flush=True)
"""


def test_processes_that_make_it_at_once_use_one_key(tmp_path: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    try:
        assert {_line(child) for child in children} == {"ready"}
        for number in range(25):
            path = tmp_path / f"{number}.pem"
            for child in children:
                assert child.stdin is not None
                print(path, file=child.stdin, flush=True)
            assert {_line(child) for child in children} == {SigningKey.read(path).public_id}
    finally:
        for child in children:
            child.communicate()
    assert len(os.listdir(tmp_path)) == 25


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_who_loses_the_race_takes_the_winners_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real, winners = tmp_path / "key.pem", os.link, []

    def late(*names: Any) -> None:
        monkeypatch.setattr(os, "link", real)
        winners.append(SigningKey.make(path))
        real(*names)

    monkeypatch.setattr(os, "link", late)
    assert SigningKey.read_or_make(path).public_id == winners[0].public_id
    assert os.listdir(tmp_path) == ["key.pem"]


KILLED = """
import os, signal, sys
from pathlib import Path
from fedsgt.certificates.keys import SigningKey

left = int(sys.argv[2])
def counted(real):
    def call(*arguments):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*arguments)
    return call
for name in ("open", "fsync", "link", "unlink"):
    setattr(os, name, counted(getattr(os, name)))
SigningKey.read_or_make(Path(sys.argv[1]))
"""


def test_killed_at_any_step_there_is_no_key_or_a_whole_one(tmp_path: Path) -> None:
    for steps in range(20):
        path = tmp_path / str(steps) / "key.pem"
        path.parent.mkdir()
        done = subprocess.run([sys.executable, "-c", KILLED, path, str(steps)], check=False)
        found = SigningKey.read(path) if path.exists() else None
        key = SigningKey.read_or_make(path)
        assert found is None or key.public_id == found.public_id
        Folder(path.parent).sweep()
        assert os.listdir(path.parent) == ["key.pem"]
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert done.returncode == 0
    assert steps > 4


def test_it_is_on_disk_before_it_has_its_name_and_the_name_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            steps.append("fsync folder" if folder else name)
            return real(*arguments)

        return call

    for name in ("fsync", "link", "unlink"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    SigningKey.make(tmp_path / "key.pem")
    assert steps == ["fsync", "link", "unlink", "fsync folder"]
    SigningKey.read_or_make(tmp_path / "key.pem")
    assert steps[4:] == ["fsync folder"]
