"""Flower's SuperLink as a child process: TLS, nodes with registered keys only, nothing of clients on disk."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx
import tomli_w
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from fedsgt.engine.flower.internals import (
    ControlHttpClient,
    ListNodesRequest,
    RegisterNodeRequest,
    RuntimeVersionHttpInterceptor,
    resolve_bind_address,
)
from fedsgt.errors import InputError
from fedsgt.federation.keys import public_text
from fedsgt.federation.processes import Child, flower_command, flower_environment
from fedsgt.federation.settings import ServerSettings

CONNECTION = "fedsgt"
"""Name of the connection for `flwr` commands, with the folder `flower` beside `server.toml` as FLWR_HOME."""
START_SECONDS = 60.0  # importing Flower takes long on a busy machine


class Unreachable(InputError):
    """No SuperLink answers at the server's address."""


@dataclass
class Registration:
    """Clients that one look through the folder of keys let in, and problems that it found."""

    names: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """One line for each file that is not a key, told only once."""


class SuperLink:
    """A SuperLink that runs for a `with` block; its state is in memory, so no update reaches the disk."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.owners: dict[str, str] = {}  # registered keys
        self.problems: dict[Path, str] = {}

    def __enter__(self) -> Self:
        flower_command("flower-superlink")  # raises and says what to install if it is not there
        check_port(self.settings.host, self.settings.port)
        home = flower_home(self.settings)
        # Started by way of the guard: the SuperLink itself would let anybody register a key or run code.
        command = [sys.executable, "-m", "fedsgt.federation.server.guard", *self._options()]
        self.child = Child(command, self.settings.folder / "superlink.log", flower_environment(home))
        try:
            self._wait_until_ready()
        except BaseException:
            self.child.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.child.stop()

    def check(self) -> None:
        """Raise with one line on how the SuperLink ended, if it did."""
        if self.child.ended:
            raise InputError(f"the SuperLink ended by itself: {self.child.last_words()} ({self.child.log})")

    def register_clients(self) -> Registration:
        """Let in clients whose keys are new in the folder.

        A key that is taken out of the folder is let in until the next start.
        """
        found = Registration()
        for path in sorted(self.settings.clients.glob("[!.]*.pub")):
            try:
                if self._register(path):
                    found.names.append(path.stem)
            except Unreachable:
                raise
            # A bad file must not keep the other clients out, nor fill the terminal at every look.
            except InputError as error:
                if self.problems.get(path) != str(error):
                    found.problems.append(str(error))
                self.problems[path] = str(error)
        return found

    def _register(self, path: Path) -> bool:
        key = public_text(path)
        owner = self.owners.get(key)
        if owner is None:
            pem = load_ssh_public_key(key.encode()).public_bytes(
                Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
            )
            with control(self.settings) as client:
                client.RegisterNode(RegisterNodeRequest(public_key=pem, name=path.stem))
            self.owners[key] = path.stem
        # One key under two names would be two clients that can sign for each other.
        elif owner != path.stem:
            raise InputError(f"{path}: the key of client {owner}; each client needs its own")
        return owner is None

    def _options(self) -> list[str]:
        settings = self.settings
        return [
            *("--host", settings.host, "--port", str(settings.port)),
            *("--ssl-ca-certfile", str(settings.ca)),
            *("--ssl-certfile", str(settings.certificate)),
            *("--ssl-keyfile", str(settings.key)),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        ]

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + START_SECONDS
        while True:
            self.check()
            try:
                with control(self.settings) as client:
                    client.ListNodes(ListNodesRequest())
                return
            except Unreachable as error:
                # Another server on this port has another certificate: waiting longer would not help.
                if "CERTIFICATE" in str(error) or time.monotonic() > until:
                    raise InputError(f"the SuperLink does not get ready: {error}") from None
            time.sleep(0.2)


@contextmanager
def control(settings: ServerSettings) -> Iterator[ControlHttpClient]:
    """Open Flower's client of the SuperLink's control API, by which runs are started and nodes let in.

    Errors of the connection become `Unreachable`, refusals `InputError`.
    """
    address = resolve_bind_address(f"{_bracketed(settings.host)}:{settings.port}")
    version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
    try:
        with ControlHttpClient.from_server_address(
            address, insecure=False, root_certificates=settings.ca.read_bytes(), interceptors=[version]
        ) as client:
            yield client
    except httpx.HTTPStatusError as error:
        raise InputError(f"the SuperLink at {address} refuses: {_reason(error.response)}") from None
    except httpx.HTTPError as error:
        raise Unreachable(
            f"no SuperLink of this server answers at {address} ({error}); "
            f"start it: fedsgt server {settings.folder}"
        ) from None


def flower_home(settings: ServerSettings) -> Path:
    """Make the folder that Flower uses instead of the user's own, with the connection for `flwr` commands."""
    home = settings.folder / "flower"
    home.mkdir(exist_ok=True)
    address = f"{_bracketed(settings.host)}:{settings.port}"
    connection = {"address": resolve_bind_address(address), "root-certificates": str(settings.ca)}
    text = tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: connection}})
    (home / "config.toml").write_text(text, encoding="utf-8")
    return home


def check_port(host: str, port: int) -> None:
    """Check that the port is free: a process that finds it taken would only say so in its log."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # Connections that ended a moment ago do not count as taken, for the server itself neither.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InputError(
                f"{host}:{port}: cannot listen there ({error.strerror}); give another port in server.toml"
            ) from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _reason(response: httpx.Response) -> str:
    """Return Flower's own reason for a refusal, in one line."""
    try:
        told = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        told = response.text
    return " ".join(str(told).split()) or f"status {response.status_code}"
