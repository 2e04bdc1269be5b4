"""The folders of a federation are made once, whole and private; Flower takes the keys in them."""

from __future__ import annotations

import argparse
import fcntl
import itertools
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from authority_files import TREE, contents, handshake

from fedsgt.errors import InputError
from fedsgt.federation.keys import make_authority, make_client, public_text
from fedsgt.federation.settings import load_client, load_server
from fedsgt.files.durable import write_once


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
