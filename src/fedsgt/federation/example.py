"""An example federation on one machine: a server and three clients, with every command shown.

It trains over TLS with clients known by their keys; then one of them withdraws a record, another tries that
with data which is not its own, and what is left is proved. Nothing in it is simulated but the machines.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tomli_w

from fedsgt.data import Columns, labels_of, load_dataset
from fedsgt.data.sources import read_names
from fedsgt.errors import InputError
from fedsgt.federation.client.records import ClientRecords, Enrolment
from fedsgt.federation.processes import QUIET, Child
from fedsgt.federation.server.desk import REFUSED
from fedsgt.federation.settings import CLIENT_FILE, load_client, load_server
from fedsgt.files.optional import require
from fedsgt.runs.artefacts import PUBLIC_KEY
from fedsgt.runs.folder import RunFolder, open_run

NAMES = ("a", "b", "c")
OWNER, FORGER = NAMES[:2]
RECORDS = "records.parquet"
# -P: a file in the working directory must not stand in for a library.
COMMAND = (sys.executable, "-P", "-m", "fedsgt")
START_SECONDS = 120.0
STOP_SECONDS = 60.0  # the server waits for its desk, which may have deletions to finish
SETTINGS: dict[str, dict[str, Any]] = {
    # The server reads the test part alone: the clients' records are theirs.
    "data": {"source": "digits", "partition": "remote", "clients": len(NAMES), "labels": 10},
    "grouping": {"groups": 3, "slices": 2},
    "peft": {"layers": 1, "rank": 4},
    "training": {"epochs": 1, "learning_rate": 0.005},
    "engine": {"name": "flower", "workers": 0},
}


class Example:
    """The example in one folder; played again there, it goes on with what exists."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: a file, where a folder is expected; give another with -o")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / "ca.key").exists():
            raise InputError(f"{folder}: there is something else in it; give an empty folder with -o")
        self.folder, self.say = folder, say
        self.server, self.config = folder / "server", folder / "example.toml"
        self.run = self.server / "runs" / self.config.stem

    def play(self, overrides: Sequence[str] = ()) -> None:
        """Play everything from the keys to the proof; whatever happens, no process is left."""
        self._make_keys()
        self._deal_records()
        with ExitStack() as processes:
            self._start_all(processes)
            self._train(overrides)
            self._withdraw()
            self._forge()
            self._prove()
            self.say("\n# the end: the server and the clients are stopped")

    def _make_keys(self) -> None:
        known = (self.server / "server.toml").exists()
        settings = load_server(self.server) if known else None
        port, desk_port = (settings.port, settings.desk_port) if settings else _free_ports()
        clients = [part for name in NAMES for part in ("--client", name)]
        self._command("keys", self.folder, *clients, "--port", port, "--desk-port", desk_port)

    def _deal_records(self) -> None:
        """Give each client a third of the digits; a file that exists stays, without what was withdrawn."""
        self.say(f"\n# each client's own records: a third of the digits each, in its {RECORDS}")
        records = load_dataset("digits", Columns(("image",)), labels=10).records
        for number, name in enumerate(NAMES):
            part = records[number :: len(NAMES)]
            path = self.folder / name / RECORDS
            if not path.exists():
                ids, images = [record.id for record in part], [record.content[0] for record in part]
                _write(path, {"id": ids, "label": labels_of(part), "image": images})
            _set(self._client(name), "workers = 1", "workers = 0")  # one more process is slow to start
        engine = {**SETTINGS["engine"], "server": str(self.server.absolute())}
        self.config.write_text(tomli_w.dumps({**SETTINGS, "engine": engine}), encoding="utf-8")

    def _start_all(self, processes: ExitStack) -> None:
        server = self._start(processes, "server", self.server)
        self._until(server, "may connect", "the server")
        clients = {name: self._start(processes, "client", self._client(name)) for name in NAMES}
        # The clients are ended all at once, and before the server, with which they sign off.
        for client in clients.values():
            processes.callback(client.process.terminate)
        for name, client in clients.items():
            self._until(client, f"{name}: connected", f"client {name}")

    def _train(self, overrides: Sequence[str]) -> None:
        given = [part for override in overrides for part in ("-s", override)]
        self._command("train", self.config, "--engine", "flower", *given)
        self._command("evaluate", self.run)

    def _withdraw(self) -> None:
        """Let the owner withdraw the first record that it still has."""
        (ids,) = read_names(self.folder / OWNER / RECORDS, "id")
        if not ids:
            raise InputError(f"{self.folder}: client {OWNER} has withdrawn all; give another folder with -o")
        self.say(f"\n# client {OWNER} withdraws a record of its own, on its own machine, with its own key")
        self._command("withdraw", self._client(OWNER), "--record", ids[0])

    def _forge(self) -> None:
        settings = self._make_forger()
        self.say(
            f"\n# client {FORGER} passes for {OWNER}, with its own key, and asks to delete {OWNER}'s data"
        )
        # The ledger's head is compared afterwards: a refused request must not leave an entry.
        before = self._folder().ledger.head()
        self._command("withdraw", settings, "--slice", 0, expected=1)
        self._check_refused(before)

    def _make_forger(self) -> Path:
        """Write settings of the forger in the owner's name, with all but the owner's key."""
        own, known = load_client(self.folder / FORGER), self._folder().description
        settings = {
            "name": OWNER,
            **{key: getattr(own, key) for key in ("server", "desk")},
            **{key: str(getattr(own, key)) for key in ("ca", "key", "salt")},
            "data": {"source": own.data.source, "erase": "tombstone"},
        }
        path = self.folder / "forger" / CLIENT_FILE
        path.parent.mkdir(exist_ok=True)
        path.write_text(tomli_w.dumps(settings), encoding="utf-8")
        slices = len(next(client for client in known.clients if client.name == OWNER).slices)
        enrolment = Enrolment(run=known.id, name=OWNER, slices=slices, labels=known.labels)
        ClientRecords(load_client(path)).enrol(enrolment)
        return path

    def _check_refused(self, before: int) -> None:
        line = (self.server / REFUSED).read_text(encoding="utf-8").splitlines()[-1]
        if json.loads(line)["reason"] != "forged" or self._folder().ledger.head() != before:
            raise InputError(f"{self.server / REFUSED}: the forged request was not refused as one")
        self.say(f"# refused, and written down in {self.server / REFUSED}:\n{line}")

    def _prove(self) -> None:
        self._command("status", self.run)
        self.say("\n# the clients train what is served once more, without the record; every byte must agree")
        self._command("verify", self.run)
        kept = (self.folder / OWNER / "certificates").glob("*.json")
        newest = max(kept, key=lambda path: int(path.stem.rpartition("-")[2]))
        self._command("certificate", "verify", newest, "--key", self.run / PUBLIC_KEY)

    def _folder(self) -> RunFolder:
        return open_run(self.run)

    def _client(self, name: str) -> Path:
        return self.folder / name / CLIENT_FILE

    def _command(self, *arguments: object, expected: int = 0) -> None:
        """Run a command, and raise if it does not end as expected."""
        given = list(map(str, arguments))
        self.say(f"\n$ fedsgt {shlex.join(given)}")
        code = subprocess.run([*COMMAND, *given], env=_environment(), check=False).returncode
        if code != expected:
            raise InputError(f"fedsgt {given[0]} ended with exit code {code}; what it said above tells why")

    def _start(self, processes: ExitStack, party: str, path: Path) -> Child:
        """Start a party in the background, with its output in a file of its folder."""
        place = path if path.is_dir() else path.parent
        self.say(f"\n$ fedsgt {party} {shlex.quote(str(path))} &")
        child = Child([*COMMAND, party, str(path)], place / f"{party}.out", _environment())
        processes.callback(child.stop, STOP_SECONDS)
        return child

    def _until(self, child: Child, sign: str, who: str) -> None:
        """Wait for a line of a process, and show its output."""
        end = time.monotonic() + START_SECONDS
        while sign not in (said := child.log.read_text(encoding="utf-8", errors="replace")):
            if child.ended or time.monotonic() > end:
                raise InputError(f"{who} did not get ready: {child.last_words()} ({child.log})")
            time.sleep(0.1)
        self.say(said.rstrip())


def _environment() -> dict[str, str]:
    return {**os.environ, **QUIET}


def _set(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(f"\n{old}\n", f"\n{new}\n"), encoding="utf-8")


def _write(path: Path, columns: Mapping[str, Sequence[object]]) -> None:
    """Write a parquet file whole or not at all, so that a stop leaves no half of a client's data."""
    unfinished = path.with_name(f".{path.name}.new")
    require("pyarrow.parquet").write_table(require("pyarrow").table(columns), unfinished)
    unfinished.replace(path)


def _free_ports() -> tuple[int, int]:
    """Return two different ports that are free at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]
