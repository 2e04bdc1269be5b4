"""Four clients with their own folders and records, reached by a grid in this process instead of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives import serialization
from flower_internals import NodeInfo
from flwr.app import Context, Message, RecordDict
from tiny_world import LABELS, World, build

from fedsgt.build.prepare import describe, prepare_clients
from fedsgt.config import Config
from fedsgt.engine.flower.local import RUN, LocalGrid
from fedsgt.federation.client import node_app
from fedsgt.federation.client.records import ClientRecords
from fedsgt.federation.keys import known_keys, make_authority, make_client
from fedsgt.federation.server.remote import RemoteClients
from fedsgt.federation.settings import load_client
from fedsgt.runs.folder import RunFolder, create_run
from fedsgt.runs.records import ClientData

NAMES = ("c0", "c1", "c2", "c3")
Intercept = Callable[[str, Message, Callable[[], Message]], Message]
"""Answers a message to a client of this name; the last argument gives the client's own answer."""


class Machines(LocalGrid):
    """A grid in which each node is the machine of one client, known by its key."""

    def __init__(self, folder: Path, intercept: Intercept = lambda client, message, answer: answer()) -> None:
        super().__init__(self._answer, len(NAMES))
        self.intercept = intercept
        self.heard: list[tuple[str, RecordDict]] = []
        self.connected = dict(zip(self.nodes, NAMES, strict=True))
        self.keys: dict[int, bytes] = {}
        for node, name in self.connected.items():
            self.contexts[node] = Context(
                RUN, node, {"client": str(folder / name / "client.toml")}, RecordDict(), {}
            )
            public = serialization.load_ssh_public_key((folder / name / "node.pub").read_bytes())
            self.keys[node] = public.public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )

    def _answer(self, message: Message, context: Context) -> Message:
        client = self.connected[context.node_id]
        return self.intercept(client, message, lambda: node_app.app(message, context))

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [
            NodeInfo(node_id=node, public_key=self.keys[node], status="online", last_activated_at="now")
            for node in self.connected
        ]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            if not reply.has_error():
                self.heard.append((self.connected[reply.metadata.src_node_id], reply.content))
        return replies


def make_machines(folder: Path, world: World) -> None:
    """Make the folders as `fedsgt keys` does, with each client's own records of the world."""
    make_authority(folder)
    for name in NAMES:
        make_client(folder, name)
        set_workers(folder / name, 0)
        rows = [row for row in world.rows if row.client == name]
        columns: dict[str, list[Any]] = {
            "id": [row.id for row in rows],
            "label": [row.label for row in rows],
            "image": [row.content for row in rows],
        }
        pq.write_table(pa.table(columns), folder / name / "records.parquet")


def set_workers(client: Path, number: int) -> None:
    """Write another number of worker processes into a client's settings."""
    file = client / "client.toml"
    lines = file.read_text(encoding="utf-8").splitlines()
    changed = [f"workers = {number}" if line.startswith("workers = ") else line for line in lines]
    file.write_text("\n".join(changed) + "\n", encoding="utf-8")


def close_machines(folder: Path) -> None:
    """End the workers and timers of all clients, which otherwise live as long as this process."""
    for name in NAMES:
        trainer = node_app.trainer_of(str(folder / name / "client.toml"))
        trainer.rest()
        trainer.idle.cancel()
    node_app.trainer_of.cache_clear()


def remote_config(world: World, *overrides: str) -> Config:
    return world.config("data.partition=remote", "engine.name=flower", *overrides)


def access_to(folder: Path, grid: LocalGrid | None = None) -> RemoteClients:
    """Return the clients as the server reaches them."""
    keys = known_keys(folder / "server" / "clients")
    return RemoteClients(grid or Machines(folder), keys, print, pause=0.01)


def trained_here(folder: Path, run: Config, path: Path) -> RunFolder:
    """Train the same run by the in-process engine, as if all records were on this machine."""
    local = run.model_copy(update={"engine": run.engine.model_copy(update={"name": "in-process"})})
    slices = run.slices_per_client()[0]
    clients = tuple(ClientRecords(load_client(folder / name)).client(name, slices, LABELS) for name in NAMES)
    prepared = prepare_clients(local, ClientData(clients, LABELS, None))
    run_folder = create_run(path, local, describe(prepared))
    build(prepared, run_folder)
    return run_folder
