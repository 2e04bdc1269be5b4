"""`fedsgt keys`: what it makes and says, for a server and for a client alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from authority_files import TREE, contents, handshake

from fedsgt.cli.commands.keys import keys as command
from fedsgt.errors import InputError
from fedsgt.federation.keys import make_authority, make_client
from fedsgt.federation.settings import load_client


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a federation that is made once; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("federation") / "keys"
    make_authority(folder, ["fed.example.org", "::1"], port=19092, desk_port=19093)
    make_client(folder, "a")
    return folder


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
