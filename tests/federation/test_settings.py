"""A party's file is read from where it lies, and what is wrong in it is one line with file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsgt.errors import InputError
from fedsgt.federation.settings import (
    ClientSettings,
    ServerSettings,
    check_name,
    load_client,
    load_server,
    starter,
)

CLIENT = 'name = "a"\n{}\n[data]\nsource = "records.parquet"\n{}\n'


def client_file(folder: Path, top: str = "", data: str = "") -> Path:
    path = folder / "client.toml"
    path.write_text(CLIENT.format(top, data), encoding="utf-8")
    return path


def test_paths_are_seen_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    client_file(
        tmp_path, 'key = "../elsewhere/node.key"\nsalt = "/secret/salt"', "[model]\nbackbone = 'models'"
    )
    monkeypatch.chdir(tmp_path.parent)
    found = load_client(Path(tmp_path.name) / "client.toml")
    assert found.folder == tmp_path
    assert (found.ca, found.salt) == (tmp_path / "ca.crt", Path("/secret/salt"))
    assert found.key == tmp_path / "../elsewhere/node.key"
    assert found.data.source == str(tmp_path / "records.parquet")
    assert found.model.backbone == str(tmp_path / "models")


@pytest.mark.parametrize(
    "source", ["records.csv", "images", "data/records.jsonl", "org/set.parquet", "a/b/c"]
)
def test_what_is_no_name_on_the_hub_is_a_path_there_or_not(tmp_path: Path, source: str) -> None:
    path = tmp_path / "client.toml"
    path.write_text(f'name = "a"\n[data]\nsource = "{source}"\n', encoding="utf-8")
    assert load_client(path).data.source == str(tmp_path / source)
    (tmp_path / "org").mkdir()
    path.write_text('name = "a"\n[data]\nsource = "org/set"\n[model]\nbackbone = "fedsgt/tiny-vit"\n')
    assert load_client(path).data.source == str(tmp_path / "org/set"), "there is a folder of the owner's name"
    assert load_client(path).model.backbone == "fedsgt/tiny-vit"


def test_names_on_the_hub_stay_names(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text(
        'name = "a"\n[data]\nsource = "org/set"\n[model]\nbackbone = "org/vit"\n', encoding="utf-8"
    )
    found = load_client(path)
    assert (found.data.source, found.model.backbone) == ("org/set", "org/vit")


def test_the_server_is_read_from_its_folder_too(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text("port = 1234\n", encoding="utf-8")
    assert load_server(tmp_path) == load_server(tmp_path / "server.toml")
    assert load_server(tmp_path).port == 1234
    assert load_server(tmp_path).clients == tmp_path / "clients"


def test_the_starters_show_every_key_and_say_the_defaults(tmp_path: Path) -> None:
    given = {"name": 'the  "north" wing', "data": {"source": "records.parquet"}}
    (tmp_path / "client.toml").write_bytes(starter(ClientSettings, given, tmp_path / "client.toml"))
    (tmp_path / "plain.toml").write_text(
        "name = 'the  \"north\" wing'\n[data]\nsource = 'records.parquet'\n", encoding="utf-8"
    )
    assert load_client(tmp_path) == load_client(tmp_path / "plain.toml")
    text = (tmp_path / "client.toml").read_text(encoding="utf-8")
    sections = [ClientSettings, *(ClientSettings.model_fields[key].annotation for key in ("data", "model"))]
    for section in sections:
        assert section is not None
        for field in section.model_fields.values():
            assert field.description is None or f"# {field.description}\n" in text
    assert '# input_columns = ["image"]\n' in text
    (tmp_path / "server.toml").write_bytes(starter(ServerSettings, {}, tmp_path / "server.toml"))
    (tmp_path / "empty.toml").touch()
    assert load_server(tmp_path) == load_server(tmp_path / "empty.toml")


@pytest.mark.parametrize(
    ("top", "data", "message"),
    [
        ("wokers = 2", "", "wokers: unknown key; did you mean workers?"),
        ('folder = "/x"', "", "folder: unknown key (allowed: name, "),
        ("", "colour = 1", "data.colour: unknown key (allowed: source, "),
        ('"a\\nb" = 1', "", "'a\\nb': unknown key"),
        ('workers = "2"', "", "workers: '2' is not allowed; it should be a whole number"),
        ("port = 65536", "", "port: 65536 is not allowed; it should be at most 65535"),
        ("ca = 3", "", "ca: 3 is not allowed; it should be the path of a file or folder"),
        ('server = "fed.example.org"', "", "server: 'fed.example.org' is no address; write HOST:PORT"),
        ('desk = "::1:9093"', "", "desk: '::1:9093' is no address; write HOST:PORT"),
        ('desk = "x:70000"', "", "desk: 'x:70000' is no address; write HOST:PORT"),
        ("", 'erase = "burn"', "data.erase: 'burn' is not allowed; it should be 'rewrite' or"),
        ("", "input_columns = [1]", "data.input_columns.0: 1 is not allowed; it should be a text"),
        ("model = 1", "", "model: 1 is not allowed"),
        ("= 1", "", "not TOML: "),
    ],
)
def test_wrong_settings_are_one_line(tmp_path: Path, top: str, data: str, message: str) -> None:
    path = client_file(tmp_path, top, data)
    with pytest.raises(InputError) as error:
        load_client(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = 0", "port: 0 is not allowed; it should be at least 1"),
        ("port = 9093", "desk_port: 9093 is the SuperLink's port; give another"),
        ('host = ""', "host: is empty; give one: "),
        ('name = "a"', "name: unknown key"),
    ],
)
def test_wrong_settings_of_the_server_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "server.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        load_server(tmp_path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    with pytest.raises(InputError, match=r"client\.toml: no such file; fedsgt keys makes a starter$"):
        load_client(path)
    path.write_text('name = "a"\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"client\.toml: data: is missing; give it$"):
        load_client(path)
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"client\.toml: cannot be read"):
        load_client(path)


@pytest.mark.parametrize("name", ["a", "Hospital 3", "Zoë", "0", "x" * 100])
def test_names_that_are_fine(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " a",
        "a\n",
        "a\x00",
        "\u202ea",
        "..",
        ".a",
        "-a",
        "a/b",
        "a\\b",
        "a~2",
        "server",
        "Server",
        "ca.key",
        "x" * 101,
        "\udc80",
    ],
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InputError, match="is no name for a client: ") as error:
        check_name(name)
    assert str(error.value).isprintable()
