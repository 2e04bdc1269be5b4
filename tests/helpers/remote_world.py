"""A run whose two clients hold their data themselves, made without training; and a desk as a process."""

from __future__ import annotations

import hashlib
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedsgt import grouping, plans
from fedsgt.build.targets import Recipe, Target, make_targets
from fedsgt.config import load
from fedsgt.data import Client
from fedsgt.federation.client.records import ClientRecords, Enrolment
from fedsgt.federation.keys import make_authority, make_client, public_text
from fedsgt.federation.settings import CLIENT_FILE, ClientSettings, ServerSettings, load_client, load_server
from fedsgt.ledger.ledger import Entry
from fedsgt.runs.description import ClientEntry, Description, ModuleEntry
from fedsgt.runs.folder import RunFolder, create_run, open_run
from fedsgt.store import Origin

SLICES, GROUPS, LABELS, EACH = 3, 3, 3, 30
NAMES = ("a", "b")
LONGEST_SECONDS = 300.0
RECIPE = Recipe({}, "0" * 64, {"threads": "1"})


@dataclass(frozen=True)
class Federation:
    """A folder as `fedsgt keys` makes it, with records for each client."""

    folder: Path

    @property
    def server(self) -> ServerSettings:
        return load_server(self.folder / "server")

    def settings(self, name: str) -> ClientSettings:
        return load_client(self.folder / name)

    def own(self, name: str) -> ClientRecords:
        return ClientRecords(self.settings(name))

    def source(self, name: str) -> Path:
        return self.folder / name / "records.parquet"

    def ids(self, name: str) -> list[str]:
        """Return the ids in the client's file."""
        return [str(value) for value in pq.read_table(self.source(name)).column("id").to_pylist()]

    def run(self, name: str = "x") -> RunFolder:
        return open_run(self.server.runs / name)

    def requests(self, name: str = "x") -> list[Entry]:
        return list(self.run(name).live().requests)

    def client(self, name: str, run: str = "x") -> Client:
        """Return the client as it takes part in the run now."""
        wanted = self.run(run).description.id
        own = self.own(name)
        return own.enrolled(next(entry for entry in own.enrolments() if entry.run == wanted))


def make_federation(folder: Path) -> Federation:
    port, desk_port = free_ports(2)
    make_authority(folder, port=port, desk_port=desk_port)
    found = Federation(folder)
    for name in NAMES:
        make_client(folder, name)
        rewriting(folder / name)
        # Not a new one each time: the same ids lie in the same slices in every test run.
        (folder / name / "salt").write_bytes(hashlib.sha256(name.encode()).digest())
        rows = range(EACH)
        columns = {
            "id": [f"{name}{row:02d}" for row in rows],
            "label": [row % LABELS for row in rows],
            "sentence": [f"text {row} of {name}" for row in rows],
        }
        pq.write_table(pa.table(columns), found.source(name))
    make_run(found, "x")
    return found


def rewriting(folder: Path) -> None:
    """Let a client have withdrawn records taken out of its file, which it must ask for."""
    settings = folder / CLIENT_FILE
    text = settings.read_text(encoding="utf-8")
    assert 'erase = "tombstone"' in text
    settings.write_text(text.replace('erase = "tombstone"', 'erase = "rewrite"'), encoding="utf-8")


def make_run(federation: Federation, name: str, slices: int = SLICES) -> RunFolder:
    """Make a run with arbitrary bytes for each wanted module; both clients are enrolled."""
    clients = [federation.own(each).client(each, slices, LABELS) for each in NAMES]
    grouped = grouping.make("random", [slices] * len(clients), GROUPS, seed=1)
    plan = plans.make("rotations", GROUPS)
    targets = make_targets(RECIPE, clients, grouped, plan)
    description = Description(
        config_hash=RECIPE.config_hash,
        backbone=RECIPE.backbone,
        profile=dict(RECIPE.profile),
        labels=LABELS,
        label_names=None,
        clients=[
            ClientEntry(
                name=client.name,
                slices=list(client.fingerprints()),
                records=list(client.slice_sizes()),
                node=public_text(federation.folder / client.name / "node.pub"),
            )
            for client in clients
        ],
        grouping=grouped.method,
        looks_at_data=False,
        group_of=grouped.group_of.tolist(),
        plan=plan.kind,
        sequences=[list(order) for order in plan.sequences],
        modules=[_entry(target) for target in targets],
    )
    sizes = [f"grouping.slices={slices}", f"grouping.groups={GROUPS}"]
    config = load(None, ["data.partition=remote", "data.clients=2", "model.task=text", *sizes])
    folder = create_run(federation.server.runs / name, config, description)
    for target in targets:
        folder.modules.put(_origin(target), {"weight": np.ones(3, np.float32)})
    for each in NAMES:
        enrolment = Enrolment(run=folder.description.id, name=each, slices=slices, labels=LABELS)
        federation.own(each).enrol(enrolment)
    return folder


def _entry(target: Target) -> ModuleEntry:
    groups, prefix = list(target.groups), list(target.prefix)
    return ModuleEntry(key=target.key, parent=target.parent, groups=groups, prefix=prefix)


def _origin(target: Target) -> Origin:
    return Origin(
        **_entry(target).model_dump(),
        config_hash=RECIPE.config_hash,
        config={},
        backbone=RECIPE.backbone,
        rounds=0,
        participants=[],
        seed=0,
        versions={},
        profile=dict(RECIPE.profile),
        machine={},
        metrics={},
    )


def free_ports(count: int) -> list[int]:
    """Return ports that are free at this moment, all different."""
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in opened]
    for each in opened:
        each.close()
    return ports


@contextmanager
def desk_process(settings: ServerSettings) -> Iterator[subprocess.Popen[str]]:
    """Start the desk as `fedsgt server` does, and yield it once it answers."""
    command = [sys.executable, "-m", "fedsgt.federation.server.desk_service", str(settings.folder)]
    with ended_at_last(command, stderr=subprocess.PIPE) as child:
        _wait_until_ready(settings, child)
        yield child
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)


@contextmanager
def ended_at_last(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a process that is killed at the end, so that a failed assertion never waits for it."""
    with subprocess.Popen(command, text=True, **options) as child:
        # Reading its output ends with it: a process that stays silent must not be read from for ever.
        timer = threading.Timer(LONGEST_SECONDS, child.kill)
        timer.start()
        try:
            yield child
        finally:
            timer.cancel()
            child.kill()  # does nothing to one that has ended


def _wait_until_ready(settings: ServerSettings, child: subprocess.Popen[str]) -> None:
    end = monotonic() + 60
    while monotonic() < end:
        assert child.poll() is None, child.communicate()[1]
        try:
            with desk_connection(settings) as client:
                assert client.get("/v1/health").json() == {"status": "ok"}
                return
        except httpx.TransportError:
            sleep(0.1)
    raise AssertionError("the desk does not answer")


def desk_connection(settings: ServerSettings) -> httpx.Client:
    """Return a connection to the desk, such as anybody can open."""
    trusted = ssl.create_default_context(cafile=settings.ca)
    address = f"https://127.0.0.1:{settings.desk_port}"
    return httpx.Client(base_url=address, verify=trusted, trust_env=False, timeout=60)
