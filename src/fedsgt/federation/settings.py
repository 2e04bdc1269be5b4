"""Settings of a federation's parties: the server's `server.toml` and a client's `client.toml`."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from fedsgt.config import Config
from fedsgt.config.sections import Section, Text
from fedsgt.config.toml import explain, read_toml
from fedsgt.errors import InputError
from fedsgt.files.places import looks_like_hub_name

SERVER_FILE, CLIENT_FILE = "server.toml", "client.toml"
# Sections of a run's settings that shape a module or a statistic, or those keys of a section that do: the
# server sends these to the clients, and no other.
SENT_SECTIONS: dict[str, Any] = {
    "model": True,
    "peft": True,
    "training": True,
    "privacy": True,
    "heads": {"share", "bits"},
}
# Names of data and models that come with the package.
BUILT_IN = ("digits", "fedsgt/tiny-vit")
# Names of files and folders that stand beside the clients' folders.
TAKEN_NAMES = ("server", "ca.key", "ca.crt")
MAX_NAME_BYTES = 100
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
Settings = TypeVar("Settings", bound="PartySettings")


def check_name(name: str) -> str:
    """Check that a client's name can be the name of its folder, and return it."""
    wrong = ""
    if not name or not name.isprintable() or name != name.strip():
        wrong = "it is empty, begins or ends with a blank, or has a character that cannot be printed"
    # `~` would look like a client that came back, which gets a name such as hospital-3~2.
    elif any(mark in name for mark in "/\\~") or name.startswith((".", "-")):
        wrong = "it has /, \\ or ~ in it, or begins with . or -"
    elif name.casefold() in TAKEN_NAMES:
        wrong = "it is taken"
    elif len(name.encode()) > MAX_NAME_BYTES:
        wrong = f"it is longer than {MAX_NAME_BYTES} bytes"
    if wrong:
        raise InputError(
            f"{name[:MAX_NAME_BYTES]!r} is no name for a client: {wrong}; give one such as hospital-3"
        )
    return name


def check_address(text: str) -> str:
    """Check that the text is `HOST:PORT`, with an IPv6 host in brackets, and return it."""
    match = _ADDRESS.fullmatch(text)
    if not match or not 0 < int(match[2]) < 2**16:
        raise InputError(f"{text!r} is no address; write HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    return text


def _beside(value: object, info: ValidationInfo) -> object:
    """Return the path of a file; a relative one starts at the folder of the settings."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError(f"{value!r} is not allowed; it should be the path of a file or folder")
    return _folder(info) / os.path.expanduser(value)


def _beside_if_path(text: str, info: ValidationInfo) -> str:
    """Return a path as `_beside` does, or the text itself if it must be a name on the hub."""
    path = os.path.join(_folder(info), os.path.expanduser(text))
    # A path is made absolute also if nothing is there, so that the error names the place that was looked at.
    is_name = text in BUILT_IN or looks_like_hub_name(text, _folder(info))
    return text if is_name and not os.path.exists(path) else path


def _folder(info: ValidationInfo) -> Path:
    assert isinstance(info.context, Path), "settings are read with load_server or load_client"
    return info.context


File = Annotated[Path, BeforeValidator(_beside)]
FileOrName = Annotated[Text, AfterValidator(_beside_if_path)]
Address = Annotated[str, AfterValidator(check_address)]
Port = Annotated[int, Field(ge=1, le=65535)]


class PartySettings(Section):
    """Settings of one party; all paths in them are absolute, once read."""

    _folder: Path = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        self._folder = context

    @property
    def folder(self) -> Path:
        """Folder of the file, which also holds the party's state."""
        return self._folder


class ServerSettings(PartySettings):
    """Settings of the server: its SuperLink, which nodes connect to, and its desk, which takes deletions."""

    host: Text = Field("127.0.0.1", description="address to listen on; 0.0.0.0 is all that the machine has")
    port: Port = Field(9092, description="port of the SuperLink, which the clients connect to")
    desk_port: Port = Field(9093, description="port of the desk")
    runs: File = Field(Path("runs"), description="folder whose runs the desk serves")
    ca: File = Field(Path("ca.crt"), description="certificate of the authority")
    certificate: File = Field(Path("server.crt"), description="the server's certificate")
    key: File = Field(Path("server.key"), description="the certificate's private key")
    clients: File = Field(Path("clients"), description="folder of the clients' public keys, NAME.pub")

    @model_validator(mode="after")
    def _two_ports(self) -> ServerSettings:
        if self.port == self.desk_port:
            raise ValueError(f"desk_port: {self.desk_port} is the SuperLink's port; give another")
        return self


class ClientData(Section):
    """Records of the client, which stay on its machine."""

    source: FileOrName = Field(
        description="a csv, jsonl or parquet file, a folder of them or of images by label, or a hub data set"
    )
    id_column: Text = Field("id", description="column of the records' stable ids")
    label_column: Text = Field(
        "label", description="column of the labels: whole numbers from 0, or texts of `label_names`"
    )
    label_names: list[Text] | None = Field(
        None,
        description="names of the labels, in the run's order, where they are texts or folders of images",
        examples=['["cat", "dog"]'],
        min_length=2,
    )
    task: Literal["image", "text"] | None = Field(
        None,
        description="what the inputs are; images if the input column is called `image`, by default",
        examples=['"image"'],
    )
    input_columns: list[Text] | None = Field(
        None,
        description="columns of the input; `image`, or `sentence` for text, by default",
        examples=['["image"]'],
    )
    erase: Literal["rewrite", "tombstone"] = Field(
        "tombstone",
        description="`tombstone` leaves the file as it is, and leaves deleted records out when it is read; "
        "`rewrite` also takes them out of the csv, jsonl or parquet file, or removes their images",
    )


class ClientModel(Section):
    """Model on the client's machine."""

    backbone: FileOrName | None = Field(
        None,
        description="where this machine has the backbone; the run's own name for it by default",
        examples=['"/models/vit"'],
    )


class ClientPrivacy(Section):
    """Least protection of its records that the client accepts; it takes part in no run with less."""

    epsilon: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="most privacy loss of one update; any, or no privacy at all, by default",
        examples=["8.0"],
    )
    delta: Annotated[float, Field(gt=0, lt=1)] = Field(1e-5, description="largest chance of more than that")


class ClientSettings(PartySettings):
    """Settings of one client: its name, the server that it connects to, and its data."""

    name: Annotated[str, AfterValidator(check_name)] = Field(description="the client's name")
    server: Address = Field("127.0.0.1:9092", description="the server's SuperLink, HOST:PORT")
    desk: Address = Field("127.0.0.1:9093", description="the server's desk, HOST:PORT")
    ca: File = Field(Path("ca.crt"), description="certificate of the authority that the server's is from")
    key: File = Field(Path("node.key"), description="the client's private key, in OpenSSH form")
    salt: File = Field(Path("salt"), description="what its records' ids and slices are hashed with")
    workers: Annotated[int, Field(ge=0, le=1024)] = Field(
        1, description="worker processes, one thread each; 0 trains inside the trainer, for debugging"
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        0, description="port that the SuperNode itself uses on this machine; 0 picks a free one"
    )
    heads: bool = Field(
        True,
        description="whether to send statistics of the records' features, from which heads are solved; with "
        "fewer records than features they show nearly the features themselves",
    )
    data: ClientData
    model: ClientModel = Field(default_factory=ClientModel)
    privacy: ClientPrivacy = Field(default_factory=ClientPrivacy)


def load_server(path: Path | str) -> ServerSettings:
    """Read the server's settings from the file, or from the folder that it lies in."""
    return _load(ServerSettings, Path(path), SERVER_FILE)


def load_client(path: Path | str) -> ClientSettings:
    """Read a client's settings from the file, or from the folder that it lies in."""
    return _load(ClientSettings, Path(path), CLIENT_FILE)


def server_of(run: Config) -> ServerSettings:
    """Read the settings of the server that a run with remote clients names."""
    if run.engine.server is None:
        raise InputError(
            "engine.server: not given; with data.partition remote it is the folder of fedsgt server"
        )
    try:
        return load_server(Path(run.engine.server))
    except InputError as error:
        raise InputError.of("engine.server", error.mistakes or [str(error)]) from None


def starter(kind: type[PartySettings], given: Mapping[str, Any], path: Path) -> bytes:
    """Return a commented file of settings with these values and the defaults of all others.

    It is checked as if it were read from `path`, so that no starter is written that cannot be loaded.
    """
    text = _commented(kind, given)
    _check(kind, tomllib.loads(text), path)
    return text.encode()


def _commented(kind: type[BaseModel], given: Mapping[str, Any]) -> str:
    """Return the TOML text of a model and, below it, of its sections, each key under its description."""
    lines, sections = [], []
    for key, field in kind.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            sections.append(f"\n# {section.__doc__}\n[{key}]\n{_commented(section, given.get(key, {}))}")
            continue
        value = given.get(key, field.get_default())
        text = str(value) if isinstance(value, Path) else value
        # A key without a default is shown as an example that is commented out.
        line = f"# {key} = {(field.examples or [''])[0]}\n" if value is None else tomli_w.dumps({key: text})
        lines.append(f"# {field.description}\n{line}")
    return "".join([*lines, *sections])


def _load(kind: type[Settings], path: Path, name: str) -> Settings:
    path = path / name if path.is_dir() else path
    return _check(kind, read_toml(path, "; fedsgt keys makes a starter"), path)


def _check(kind: type[Settings], values: dict[str, Any], path: Path) -> Settings:
    try:
        return kind.model_validate(values, context=path.absolute().parent)
    except ValidationError as error:
        raise InputError.of(str(path), explain(kind, error)) from None
