"""A federation of real processes on this machine, and what the in-process engine makes of its clients."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from remote_world import free_ports
from tiny_world import Made, build

from fedsgt.build.prepare import describe, prepare_clients
from fedsgt.config import Config, load, to_toml
from fedsgt.config.sections import Engine
from fedsgt.data import Columns, labels_of, load_dataset
from fedsgt.engine.flower.internals import ListNodesRequest
from fedsgt.federation.client.records import ClientRecords
from fedsgt.federation.keys import make_authority, make_client
from fedsgt.federation.processes import QUIET, Child
from fedsgt.federation.server.superlink import Unreachable, control
from fedsgt.federation.settings import load_client, load_server
from fedsgt.runs.folder import RunFolder, create_run, open_run
from fedsgt.runs.records import ClientData

FEDSGT = (sys.executable, "-m", "fedsgt")
ODD_CLIENT = (sys.executable, str(Path(__file__).with_name("odd_client_child.py")))
ENVIRONMENT = {**os.environ, **QUIET}
PATIENCE = 600.0
LABELS = 10


def until(holds: Callable[[], bool], what: str, look: float = 0.1) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(look)


def present(folder: RunFolder) -> Made:
    """Return the modules that are there, read again and checked."""
    found: Made = {}
    for entry in folder.description.modules:
        if folder.modules.state(entry.key) == "present":
            found[tuple(entry.groups)] = (entry.key, folder.modules.manifest(entry.key).sha256)
    return found


def trained_here(path: Path, run: Config, owners: Sequence[ClientRecords]) -> RunFolder:
    """Train the run of these clients by the in-process engine, as if all records were on this machine."""
    slices, names = run.slices_per_client(), [own.settings.name for own in owners]
    rows = zip(owners, names, slices, strict=True)
    data = ClientData(
        local=tuple(own.client(name, number, LABELS) for own, name, number in rows),
        labels=LABELS,
        label_names=None,
    )
    here = run.model_copy(update={"engine": Engine(workers=0)})
    prepared = prepare_clients(here, data)
    folder = create_run(path, here, describe(prepared))
    build(prepared, folder)
    return folder


class Federation:
    """A server and its clients; the last of them has an executor that can be told to misbehave."""

    names = ("a", "b", "c")
    odd = "c"

    def __init__(self, folder: Path, each: int) -> None:
        self.folder = folder
        port, desk_port = free_ports(2)
        make_authority(folder, port=port, desk_port=desk_port)
        records = load_dataset("digits", Columns(("image",)), labels=LABELS).records
        for number, name in enumerate(self.names):
            make_client(folder, name)
            # Not a new one each time: the same ids lie in the same slices in every test run.
            (folder / name / "salt").write_bytes(hashlib.sha256(name.encode()).digest())
            settings = folder / name / "client.toml"
            settings.write_text(settings.read_text().replace("\nworkers = 1\n", "\nworkers = 0\n"))
            part = records[number : each * len(self.names) : len(self.names)]
            ids, images = [record.id for record in part], [record.content[0] for record in part]
            columns = {"id": ids, "label": labels_of(part), "image": images}
            pq.write_table(pa.table(columns), folder / name / "records.parquet")
        self.server = load_server(folder / "server")
        self.processes: dict[str, Child] = {}
        self.trainings: list[Training] = []

    def config(self, *overrides: str) -> Config:
        return load(
            None,
            [
                "data.partition=remote",
                f"data.clients={len(self.names)}",
                f"data.labels={LABELS}",
                "data.test_limit=10",
                "grouping.groups=3",
                "grouping.slices=3",
                "model.device=cpu",
                "peft.layers=1",
                "peft.rank=2",
                "engine.name=flower",
                f"engine.server={self.server.folder}",
                *overrides,
            ],
        )

    def start(self, party: str) -> None:
        """Start `fedsgt server` or `fedsgt client` in the background."""
        path = self.folder / party
        command = [*ODD_CLIENT, "client"] if party == self.odd else [*FEDSGT, "client"]
        command = [*FEDSGT, "server"] if party == "server" else command
        self.processes[party] = Child([*command, str(path)], path / "said.out", ENVIRONMENT)

    def said(self, party: str) -> str:
        return (self.folder / party / "said.out").read_text()

    def kill(self, party: str) -> None:
        """Kill a party as if its machine had lost power: none of its processes gets to sign off."""
        process = self.processes.pop(party).process
        process.send_signal(signal.SIGSTOP)  # it would start ended processes again
        for child in descendants(process.pid):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        process.kill()
        process.wait()

    def bring_up(self) -> None:
        """Start what is not running, and wait until all are connected."""
        for party in ("server", *self.names):
            if party not in self.processes:
                self.start(party)
                if party == "server":
                    until(lambda: "may connect" in self.said("server"), "the server is ready")
        until(lambda: self.online() == set(self.names), "all clients are connected")

    def bring_down(self) -> None:
        """End the clients first, all at once, as they sign off with the server; then the server."""
        parties = [self.processes[name] for name in self.names if name in self.processes]
        for party in parties:
            party.process.terminate()
        for party in (*parties, *(self.processes[name] for name in self.processes if name == "server")):
            party.stop(PATIENCE)

    def online(self) -> set[str]:
        try:
            with control(self.server) as client:
                nodes = client.ListNodes(ListNodesRequest()).nodes_info
        except Unreachable:
            return set()
        return {node.name for node in nodes if node.status == "online"}

    def own(self, name: str) -> ClientRecords:
        return ClientRecords(load_client(self.folder / name))

    def owners(self) -> list[ClientRecords]:
        return [self.own(name) for name in self.names]

    def misbehave(self, how: str) -> None:
        """Tell the odd client how to treat its next orders."""
        (self.folder / self.odd / "mood").write_text(how)

    def path(self, name: str) -> Path:
        return self.server.runs / name

    def run(self, name: str) -> RunFolder:
        return open_run(self.path(name))

    def train(self, name: str, *overrides: str) -> Training:
        self.trainings.append(Training(self, name, overrides))
        return self.trainings[-1]

    def stop_trainings(self) -> None:
        """Stop trainings that a failed test has left behind."""
        for training in self.trainings:
            if not training.child.ended:
                training.child.process.send_signal(signal.SIGINT)
                training.child.process.wait(PATIENCE)
        self.trainings.clear()

    def verify(self, name: str) -> subprocess.CompletedProcess[str]:
        return command("verify", self.path(name))


class Training:
    """`fedsgt train` under way."""

    def __init__(self, federation: Federation, name: str, overrides: Iterable[str]) -> None:
        file = federation.folder / f"{name}.toml"
        file.write_text(to_toml(federation.config(*overrides)))
        arguments = ["train", str(file), "--engine", "flower", "-o", str(federation.path(name))]
        self.child = Child([*FEDSGT, *arguments], federation.folder / f"{name}.out", ENVIRONMENT)

    def said(self) -> str:
        return self.child.log.read_text()

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for something that must happen before the training ends."""

        def seen() -> bool:
            assert not self.child.ended, f"it ended before: {what}; {self.said()}"
            return holds()

        until(seen, what, look=0.02)

    def end(self, expected: int = 0) -> str:
        """Return the output of the training, once it has ended as it should."""
        code = self.child.process.wait(PATIENCE)
        assert code == expected, self.said()
        return self.said()


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own to its end."""
    given = [*FEDSGT, *map(str, arguments)]
    return subprocess.run(given, capture_output=True, text=True, timeout=PATIENCE, check=False)


def descendants(process: int) -> list[int]:
    """Return a process's children and theirs, whichever of its threads has started them."""
    found = [process]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):  # it has ended meanwhile
                found += map(int, children.read_text().split())
    return found[1:]


def participants(folder: RunFolder) -> dict[tuple[int, ...], set[str]]:
    """Return the clients that took part in the one round of each module, by its manifest."""
    found = {}
    for entry in folder.description.modules:
        (names,) = folder.modules.manifest(entry.key).participants
        found[tuple(entry.groups)] = set(names)
    return found


def clients_with_records(folder: RunFolder) -> dict[tuple[int, ...], set[str]]:
    """Return the clients that have records in the groups of each module."""
    known = folder.description
    places = {client.name: set(groups) for client, groups in zip(known.clients, known.groups_of, strict=True)}
    return {
        groups: {name for name, held in places.items() if not held.isdisjoint(groups)}
        for groups in known.keys
    }
