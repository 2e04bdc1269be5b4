"""The parties' folders are made once, whole and private; TLS and Flower take what is in them."""

from __future__ import annotations

import argparse
import fcntl
import itertools
import os
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fedsgt.cli.commands.keys import keys as command
from fedsgt.errors import InputError
from fedsgt.federation.keys import make_authority, make_client, public_text
from fedsgt.federation.settings import load_client, load_server
from fedsgt.files.durable import write_once

TREE = {
    "ca.key": 0o600,
    "ca.crt": 0o644,
    "server/ca.crt": 0o644,
    "server/server.crt": 0o644,
    "server/server.key": 0o600,
    "server/server.toml": 0o644,
    "server/clients/a.pub": 0o644,
    "a/client.toml": 0o644,
    "a/ca.crt": 0o644,
    "a/node.key": 0o600,
    "a/node.pub": 0o644,
    "a/salt": 0o600,
}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a federation that is made once; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("federation") / "keys"
    make_authority(folder, ["fed.example.org", "::1"], port=19092, desk_port=19093)
    make_client(folder, "a")
    return folder


@pytest.fixture
def copied(federation: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(federation, tmp_path / "keys"))


def test_the_tree_and_who_may_read_it(federation: Path) -> None:
    modes = {name: stat.S_IMODE((federation / name).stat().st_mode) for name in contents(federation)}
    # The umask may take more away, never add.
    assert modes.keys() == TREE.keys()
    assert all(mode & ~TREE[name] == 0 for name, mode in modes.items())
    assert stat.S_IMODE((federation / "a").stat().st_mode) == 0o700
    assert len((federation / "a/salt").read_bytes()) == 32


def test_the_starters_fit_together(federation: Path) -> None:
    server, client = load_server(federation / "server"), load_client(federation / "a/client.toml")
    assert (server.host, server.port, server.desk_port) == ("fed.example.org", 19092, 19093)
    assert (client.name, client.server, client.desk) == (
        "a",
        "fed.example.org:19092",
        "fed.example.org:19093",
    )
    for path in (server.ca, server.certificate, server.key, client.ca, client.key, client.salt):
        assert path.is_file()
    assert public_text(server.clients / "a.pub") == public_text(client.key)


def handshake(folder: Path, host: str, authority: Path) -> str | None:
    """Over loopback, with the strictest checks; the protocol that both agreed on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server/server.crt", folder / "server/server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):  # the client may refuse
                context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        trust = ssl.create_default_context(cafile=authority)
        trust.verify_flags |= ssl.VERIFY_X509_STRICT
        try:
            connection = socket.create_connection(listener.getsockname(), timeout=20)
            with connection, trust.wrap_socket(connection, server_hostname=host) as secured:
                return secured.version()
        finally:
            thread.join()


@pytest.mark.parametrize("host", ["fed.example.org", "::1", "127.0.0.1", "localhost"])
def test_tls_holds_for_every_name_of_the_server(federation: Path, host: str) -> None:
    assert handshake(federation, host, federation / "a/ca.crt") == "TLSv1.3"


@pytest.mark.parametrize("host", ["other.example.org", "127.0.0.2"])
def test_tls_refuses_another_host(federation: Path, host: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(federation, host, federation / "ca.crt")


def test_tls_refuses_another_authority(federation: Path, tmp_path: Path) -> None:
    make_authority(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(federation, "localhost", tmp_path / "ca.crt")


def test_flower_takes_the_nodes_keys(federation: Path) -> None:
    from flower_internals import node_authentication, public_key_to_bytes, try_load_public_key

    path = str(federation / "a/node.key")
    given = argparse.Namespace(auth_supernode_private_key=path, auth_supernode_public_key=None)
    pair = node_authentication(given)
    assert pair is not None
    assert public_key_to_bytes(pair[1]) == try_load_public_key(federation / "server/clients/a.pub")


def test_nothing_is_overwritten_and_new_clients_are_added(copied: Path) -> None:
    before = contents(copied)
    assert make_authority(copied) + make_client(copied, "a") == []
    # The authority's key may be kept elsewhere; only a certificate needs it.
    (copied / "ca.key").unlink()
    del before["ca.key"]
    make_authority(copied)
    make_client(copied, "d")
    after = contents(copied)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {
        "server/clients/d.pub",
        *(f"d/{name}" for name in ("client.toml", "ca.crt", "node.key", "node.pub", "salt")),
    }
    assert after["d/salt"] != after["a/salt"]
    assert load_client(copied / "d").server == "fed.example.org:19092"


def make_all(folder: Path) -> None:
    make_authority(folder)
    make_client(folder, "a")


def test_cut_short_anywhere_it_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each file in turn; what was there stays, and what results is whole."""

    def stopping(after: int) -> Callable[[Path, bytes, int], None]:
        count = itertools.count()

        def write(path: Path, data: bytes, mode: int) -> None:
            if next(count) == after:
                raise KeyboardInterrupt
            write_once(path, data, mode)

        return write

    for position in range(len(TREE)):
        folder = tmp_path / str(position)
        monkeypatch.setattr("fedsgt.federation.keys.write_once", stopping(position))
        with pytest.raises(KeyboardInterrupt):
            make_all(folder)
        before = contents(folder)
        assert len(before) == position
        monkeypatch.undo()
        make_all(folder)
        after = contents(folder)
        assert after.keys() == TREE.keys()
        assert {name: after[name] for name in before} == before
        assert handshake(folder, "localhost", folder / "a/ca.crt")
        assert public_text(folder / "server/clients/a.pub") == public_text(folder / "a/node.key")


def test_what_a_killed_writer_left_goes_and_one_at_work_is_not_disturbed(copied: Path) -> None:
    own = copied / "a"
    dead, alive, other = own / f".{'0' * 16}.node.key", own / f".{'1' * 16}.node.key", own / ".mine"
    os.link(own / "node.key", dead)
    other.touch()
    with open(alive, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (own / "node.pub").unlink()
        make_client(copied, "a")
    assert [path.exists() for path in (dead, alive, other)] == [False, True, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda folder: make_authority(folder, ["new.example.org"]),
            "server/server.crt: does not name new.example",
        ),
        (
            lambda folder: make_authority(folder, port=7),
            r"server/server.toml: .* port = 19092; change it to 7",
        ),
        (lambda folder: make_authority(folder, ["0.0.0.0"]), r"host '0\.0\.0\.0' is every address"),
        (lambda folder: make_authority(folder, ["a b"]), "host 'a b' is neither a host's name"),
        (lambda folder: make_authority(folder, ["1.2.3.400"]), r"host '1\.2\.3\.400' is neither"),
        (
            lambda folder: make_client(folder, "a", server="x:1"),
            r"a/client.toml: .* change it to 'x:1' there",
        ),
        (lambda folder: make_client(folder, "b", desk="x"), "b/client.toml: desk: 'x' is no address"),
        (lambda folder: make_client(folder, "b~2"), "'b~2' is no name for a client"),
    ],
)
def test_what_cannot_be_is_refused_with_nothing_changed(
    copied: Path, change: Callable[[Path], object], message: str
) -> None:
    before = contents(copied)
    with pytest.raises(InputError, match=message) as error:
        change(copied)
    assert "\n" not in str(error.value)
    assert contents(copied) == before


def test_a_certificate_is_made_anew_once_it_is_out_of_the_way(copied: Path) -> None:
    before = contents(copied)
    (copied / "server/server.crt").unlink()
    assert make_authority(copied, ["new.example.org"]) == [copied / "server/server.crt"]
    assert contents(copied)["server/server.key"] == before["server/server.key"]
    assert handshake(copied, "new.example.org", copied / "a/ca.crt")


def test_a_certificate_that_has_ended_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsgt.federation.authority.SERVER_DAYS", -0.5)
    with pytest.raises(InputError, match=r"server\.crt: ended on .* move it away and run this again"):
        make_authority(tmp_path)


def test_files_of_other_parties_are_found(copied: Path, tmp_path: Path) -> None:
    make_authority(tmp_path / "other")
    make_client(tmp_path / "other", "a")
    for name, message in [
        ("server/server.crt", "is not from this folder's authority"),
        ("server/ca.crt", "differs from"),
    ]:
        kept = (copied / name).read_bytes()
        shutil.copy(tmp_path / "other" / name, copied / name)
        with pytest.raises(InputError, match=f"{name}: {message}"):
            make_authority(copied)
        (copied / name).write_bytes(kept)
    shutil.copy(tmp_path / "other/a/node.pub", copied / "server/clients/a.pub")
    with pytest.raises(InputError, match=r"clients/a\.pub: of another key"):
        make_client(copied, "a")
    shutil.move(copied / "a", tmp_path / "carried away")
    with pytest.raises(InputError, match=r"clients/a\.pub: its private key is not in"):
        make_client(copied, "a")
    assert not (copied / "a").exists()


def test_a_client_makes_its_own_folder(
    federation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command(tmp_path / "mine", client=["z"], no_server=True, server="fed.example.org:19092")
    own, shown = tmp_path / "mine/z", capsys.readouterr().out
    assert contents(tmp_path / "mine").keys() == {
        f"z/{name}" for name in ("client.toml", "node.key", "node.pub", "salt")
    }
    assert f"give {own}/node.pub to the server's operator, who puts it into server/clients/z.pub" in shown
    assert f"put the operator's ca.crt into {own}/ca.crt" in shown
    assert f"fedsgt client {own}/client.toml" in shown
    assert load_client(own).server == "fed.example.org:19092"
    shutil.copy(federation / "ca.crt", own / "ca.crt")
    assert handshake(federation, "localhost", load_client(own).ca)


def test_the_command_says_what_it_made_and_what_is_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my keys"
    command(folder, client=["a"])
    shown = capsys.readouterr().out
    assert {
        line.removeprefix(f"made {folder}/") for line in shown.splitlines() if line.startswith("made ")
    } == TREE.keys()
    assert f"fedsgt server '{folder}/server'" in shown
    assert load_client(folder / "a").server == "127.0.0.1:9092"
    command(folder, client=["a"])
    assert f"{folder}: nothing was missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"client": ["a", "b", "a"]}, "--client a is given twice"),
        ({"client": ["a", "b/c"]}, "'b/c' is no name for a client"),
        ({"client": ["a"], "server": "x"}, "'x' is no address"),
        ({"no_server": True}, "--no-server makes clients only: give --client"),
        ({"no_server": True, "client": ["a"], "host": ["x"]}, "--no-server makes clients only"),
        ({"port": 9, "desk_port": 9}, "desk_port: 9 is the SuperLink's port"),
    ],
)
def test_wrong_options_make_nothing(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        command(tmp_path / "keys", **given)
    assert not (tmp_path / "keys").exists()


def test_keys_need_neither_torch_nor_flower() -> None:
    code = (
        "import sys, fedsgt.cli.commands.keys, fedsgt.federation.keys\n"
        "print({'torch', 'flwr'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
