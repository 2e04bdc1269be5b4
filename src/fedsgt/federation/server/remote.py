"""Clients on machines of their own, which register their slices and train over Flower."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from cryptography.hazmat.primitives import serialization
from flwr.serverapp import Grid

from fedsgt.build.client_access import counted_in, run_info
from fedsgt.build.prepare import Prepared
from fedsgt.config import Config
from fedsgt.data import RemoteClient
from fedsgt.engine.events import Listener
from fedsgt.engine.flower.engine import FlowerEngine
from fedsgt.engine.flower.orders import Connection
from fedsgt.engine.rounds import RoundStarter
from fedsgt.errors import InputError
from fedsgt.federation.server.registration import Registration
from fedsgt.federation.settings import SENT_SECTIONS
from fedsgt.files.encoding import frames
from fedsgt.runs.description import ClientEntry, Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import ClientData
from fedsgt.runs.register import Registers
from fedsgt.runs.state import DeletedData
from fedsgt.words import counted


class RemoteClients:
    """Access to the clients whose public keys the server knows, by name."""

    def __init__(self, grid: Grid, keys: Mapping[str, str], tell: Listener, pause: float = 0.5) -> None:
        self.grid, self.keys, self.tell, self.pause = grid, keys, tell, pause
        self.erased: Mapping[str, DeletedData] = {}

    def nodes(self) -> dict[str, Connection]:
        """Return the connection of each client that is online, recognised by its key."""
        names = {key: name for name, key in self.keys.items()}
        found = {}
        for node in self.grid.get_nodes():
            name = names.get(_public_text(node.public_key))
            # A node that signed off may still be listed; a message to it would wait for nothing.
            if name is not None and node.status == "online":
                found[name] = Connection(node.node_id, node.last_activated_at)
        return found

    def load_clients(
        self,
        run: Config,
        known: Description | None = None,
        erased: Mapping[int, DeletedData] | None = None,
        registers: Registers | None = None,  # the clients keep their own
        asked: Collection[int] | None = None,
    ) -> ClientData:
        """Let every client register its slices, without the records that were deleted.

        With `asked`, only these clients register, and one that cannot is told and marked as changed.
        """
        labels = run.data.label_count
        if labels is None:
            raise InputError("data.labels: not given; with remote clients the server cannot count them")
        # By name for a new run, so that a client's number does not depend on who connects first.
        names = sorted(self.keys) if known is None else [client.name for client in known.clients]
        if known is None and run.data.clients not in (None, len(names)):
            raise InputError(
                f"data.clients is {run.data.clients}, but the server knows the keys of "
                f"{counted(len(names), 'client')}"
            )
        run = run.with_clients(len(names))
        self.erased = {names[number]: gone for number, gone in (erased or {}).items()}
        if known is not None:
            self._check_keys(known)
        slices = dict(zip(names, run.slices_per_client(), strict=True))
        gone = {client.name: self._gone(known, client) for client in (known.clients if known else ())}
        left = {name: client for name, client in gone.items() if client is not None}
        wanted = (set(names) if asked is None else {names[number] for number in asked}) - left.keys()
        abouts = {name: self._about(run, known, name, slices[name]) for name in names if name in wanted}
        clients = self._registered(run, known, abouts, strict=asked is None) | left
        others = {client.name: client for client in (known.clients if known else ())}
        label_names = None if run.data.label_names is None else tuple(run.data.label_names)
        return ClientData(
            (),
            labels,
            label_names,
            tuple(clients.get(name) or _as_described(known, others[name]) for name in names),
            erased=dict(erased or {}),
            changed=frozenset(number for number, name in enumerate(names) if name not in clients),
        )

    @contextmanager
    def engine(self, folder: RunFolder, prepared: Prepared, tell: Listener) -> Iterator[FlowerEngine]:
        run, known = prepared.run, folder.description
        fingerprints = {client.name: client.fingerprints() for client in prepared.clients}

        def about(client: str) -> dict[str, Any]:
            said = self._about(run, known, client, len(fingerprints[client]))
            return said | {
                "expect": {str(index): fingerprint for index, fingerprint in enumerate(fingerprints[client])}
            }

        info = replace(run_info(folder, prepared), about=about, ours=False)
        starter = RoundStarter(prepared.model.stack, folder.modules.get, run.training)
        with (
            FlowerEngine(self.grid, self.nodes, starter, info, run.engine, tell, self.pause) as engine,
            counted_in(folder, engine.traffic),
        ):
            yield engine

    def all_take_part(self, run: Config) -> bool:
        return False  # a round goes on without a client whose update is refused

    def _about(self, run: Config, known: Description | None, client: str, slices: int) -> dict[str, Any]:
        gone = self.erased.get(client, DeletedData())
        return {
            "run": known.id if known else "",
            "client": client,
            "slices": slices,
            "labels": run.data.label_count,
            "erased": {"slices": sorted(gone.slices), "records": sorted(gone.records)},
            "settings": run.model_dump(mode="json", include=SENT_SECTIONS),
        }

    def _check_keys(self, known: Description) -> None:
        # Under another key, somebody else could train and delete in the client's name.
        for client in known.clients:
            if self.keys.get(client.name) != client.node:
                raise InputError(
                    f"client {client.name}: the key in the server's folder is not the one that this run has"
                )

    def _registered(
        self, run: Config, known: Description | None, abouts: Mapping[str, Mapping[str, Any]], strict: bool
    ) -> dict[str, RemoteClient]:
        """Ask every client to register once it is connected, until each has answered."""
        registration = Registration(self.grid, self.nodes, self.keys, abouts, self.tell, strict)
        # A training that waits for all waits for their registrations, too.
        waits = strict and run.engine.absent == "wait"
        stand_in = None if waits else partial(self._as_known, known)
        registration.run(stand_in, run.engine.timeout, self.pause)
        return registration.found

    def _gone(self, known: Description | None, entry: ClientEntry) -> RemoteClient | None:
        """Return a client that has deleted all its data; it is not asked, as it may never connect again."""
        erased = self.erased.get(entry.name, DeletedData()).slices
        if known is None or entry.node is None or not erased.issuperset(range(len(entry.slices))):
            return None
        # An empty slice needs a fingerprint that is the same at every training: otherwise modules would be
        # trained again each time. A slice that was empty before keeps the one that was registered.
        fingerprints = tuple(
            hashlib.sha256(frames("fedsgt.gone.1", known.id, entry.name, index)).hexdigest()
            if held
            else fingerprint
            for index, (fingerprint, held) in enumerate(zip(entry.slices, entry.records, strict=True))
        )
        sizes = (0,) * len(fingerprints)
        return RemoteClient(entry.name, fingerprints, sizes, entry.node, known.backbone, known.profile)

    def _as_known(self, known: Description | None, name: str) -> RemoteClient:
        """Return a client that does not answer as it registered before, if it has deleted nothing since."""
        entry = next((client for client in known.clients if client.name == name), None) if known else None
        if entry is None or known is None or name in self.erased:
            raise InputError(f"client {name} does not answer, and only it can say what it holds now")
        return _as_described(known, entry)


def _as_described(known: Description | None, entry: ClientEntry) -> RemoteClient:
    """Return a client of a known run as it registered."""
    assert known is not None
    assert entry.node is not None
    slices, records = tuple(entry.slices), tuple(entry.records)
    return RemoteClient(entry.name, slices, records, entry.node, known.backbone, known.profile)


def _public_text(key: bytes) -> str:
    """Return a public key in the form of its file: type and key, two words."""
    try:
        public = serialization.load_pem_public_key(key)
    except ValueError:
        return ""
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return public.public_bytes(*form).decode()
