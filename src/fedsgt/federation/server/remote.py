"""Access to clients on machines of their own: they register with the server, and then train."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives import serialization
from flwr.app import Message
from flwr.serverapp import Grid

from fedsgt.build.client_access import counted_in, run_info
from fedsgt.build.prepare import Prepared
from fedsgt.config import Config
from fedsgt.data import RemoteClient
from fedsgt.engine.events import Listener, Note
from fedsgt.engine.flower.engine import FlowerEngine
from fedsgt.engine.flower.messages import size_of, text_message, text_of
from fedsgt.engine.flower.orders import Connection
from fedsgt.engine.flower.transport import AWAY, MOST_FAILURES, reason
from fedsgt.engine.rounds import Server
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.runs.description import ClientEntry, Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records import ClientData
from fedsgt.runs.state import DeletedData
from fedsgt.words import LONGEST_MESSAGE, printable

HASH = re.compile(r"[0-9a-f]{64}")
MOST_RECORDS = 1_000_000_000
MOST_BYTES = 4 << 20  # of a registration: fingerprints of ten thousand slices take a part of it
# What of a run's settings shapes a module; a client needs no other.
SECTIONS = ("model", "peft", "training", "privacy")


class RemoteClients:
    """The clients whose public keys the server knows, by name."""

    def __init__(self, grid: Grid, keys: Mapping[str, str], tell: Listener, pause: float = 0.5) -> None:
        self.grid, self.keys, self.tell, self.pause = grid, keys, tell, pause
        self.erased: Mapping[str, DeletedData] = {}

    def nodes(self) -> dict[str, Connection]:
        """The node of each client that is connected, known by its key."""
        names = {key: name for name, key in self.keys.items()}
        found = {}
        for node in self.grid.get_nodes():
            name = names.get(_public_text(node.public_key))
            if name is not None and node.status == "online":
                found[name] = Connection(node.node_id, node.last_activated_at)
        return found

    def load_clients(
        self, run: Config, known: Description | None = None, erased: Mapping[int, DeletedData] | None = None
    ) -> ClientData:
        """What each client shows of its records, without those that were deleted."""
        if run.data.labels is None:
            raise InputError("data.labels: not given; with remote clients the server cannot count them")
        names = sorted(self.keys) if known is None else [client.name for client in known.clients]
        if known is None and len(names) != run.data.clients:
            raise InputError(
                f"data.clients is {run.data.clients}, but the server knows the keys of {len(names)} clients"
            )
        self.erased = {names[number]: gone for number, gone in (erased or {}).items()}
        if known is not None:
            self._check_keys(known)
        slices = dict(zip(names, run.slices_per_client(), strict=True))
        gone = {client.name: self._gone(known, client) for client in (known.clients if known else ())}
        left = {name: client for name, client in gone.items() if client is not None}
        abouts = {name: self._about(run, known, name, slices[name]) for name in names if name not in left}
        clients = self._registered(run, known, abouts) | left
        return ClientData((), run.data.labels, None, tuple(clients[name] for name in names))

    @contextmanager
    def engine(self, folder: RunFolder, prepared: Prepared, tell: Listener) -> Iterator[FlowerEngine]:
        run, known = prepared.run, folder.description
        marks = {client.name: client.fingerprints() for client in prepared.clients}

        def about(client: str) -> dict[str, Any]:
            said = self._about(run, known, client, len(marks[client]))
            return said | {"expect": {str(index): mark for index, mark in enumerate(marks[client])}}

        info = replace(run_info(folder, prepared), about=about, ours=False)
        server = Server(prepared.model.stack, folder.modules.get, run.training)
        with (
            FlowerEngine(self.grid, self.nodes, server, info, run.engine, tell, self.pause) as engine,
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
            "labels": run.data.labels,
            "erased": {"slices": sorted(gone.slices), "records": sorted(gone.records)},
            "settings": run.model_dump(mode="json", include=set(SECTIONS)),
        }

    def _check_keys(self, known: Description) -> None:
        for client in known.clients:
            if self.keys.get(client.name) != client.node:
                raise InputError(
                    f"client {client.name}: the key in the server's folder is not the one that this run has"
                )

    def _registered(
        self, run: Config, known: Description | None, abouts: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, RemoteClient]:
        """Ask all, as they connect, until each has answered."""
        found: dict[str, RemoteClient] = {}
        asked: dict[str, str] = {}
        failures: Counter[str] = Counter()
        told, deadline = "", time.monotonic() + run.engine.timeout
        while len(found) < len(abouts):
            late = run.engine.absent == "go-on" and time.monotonic() > deadline
            for name in [name for name in abouts if name not in found] if late else ():
                found[name] = self._as_known(known, name)
            nodes = self.nodes()
            waiting = [name for name in abouts if name not in found and name not in asked.values()]
            for name in [name for name in waiting if name in nodes]:
                (number,) = self.grid.push_messages(
                    [Message(text_message(abouts[name]), nodes[name].node, "query.register")]
                )
                asked[number] = name
            missing = sorted(set(waiting) - nodes.keys())
            if missing and (line := f"waiting for {', '.join(missing)} to connect") != told:
                self.tell(Note(line))
                told = line
            for reply in self.grid.pull_messages(list(asked)) if asked else ():
                number = reply.metadata.reply_to_message_id
                if number not in asked:
                    continue
                name = asked.pop(number)
                if reply.has_error():
                    self._failed(failures, name, reply)
                else:
                    found[name] = self._read(name, abouts[name]["slices"], reply)
            time.sleep(self.pause if len(found) < len(abouts) else 0)
        return found

    def _failed(self, failures: Counter[str], name: str, reply: Message) -> None:
        self.tell(Note(f"client {name} did not register ({reason(reply)}); asking again"))
        failures[name] += reply.error.code not in AWAY
        if failures[name] >= MOST_FAILURES:
            raise InputError(f"client {name} cannot register ({reason(reply)})")

    def _gone(self, known: Description | None, entry: ClientEntry) -> RemoteClient | None:
        """A client that has deleted all it had is asked nothing any more: it may be gone for good."""
        erased = self.erased.get(entry.name, DeletedData()).slices
        if known is None or entry.node is None or not erased.issuperset(range(len(entry.slices))):
            return None
        # Marks of nothing, that stay the same however often they are asked for.
        marks = tuple(
            hashlib.sha256(frames("fedsgt.gone.1", known.id, entry.name, index)).hexdigest() if held else mark
            for index, (mark, held) in enumerate(zip(entry.slices, entry.records, strict=True))
        )
        sizes = (0,) * len(marks)
        return RemoteClient(entry.name, marks, sizes, entry.node, known.backbone, known.profile)

    def _as_known(self, known: Description | None, name: str) -> RemoteClient:
        """Of a client that does not answer: what it registered before, if it has deleted nothing since."""
        entry = next((client for client in known.clients if client.name == name), None) if known else None
        if entry is None or known is None or name in self.erased:
            raise InputError(f"client {name} does not answer, and only it can say what it holds now")
        assert entry.node is not None
        return RemoteClient(
            name, tuple(entry.slices), tuple(entry.records), entry.node, known.backbone, known.profile
        )

    def _read(self, name: str, slices: int, reply: Message) -> RemoteClient:
        """What a client says, which may be anything."""
        try:
            if size_of(reply.content) > MOST_BYTES:
                raise ValueError
            said = text_of(reply.content)
            if said.get("problem"):
                raise InputError(f"client {name}: {printable(said['problem'], LONGEST_MESSAGE)}")
            marks, sizes = _marks(said["fingerprints"], slices), _sizes(said["records"], slices)
            profile = {str(key): str(value) for key, value in dict(said["profile"]).items()}
            return RemoteClient(name, marks, sizes, self.keys[name], str(said["backbone"]), profile)
        except InputError:
            raise
        except Exception as error:  # there are more ways than can be listed
            kind = type(error).__name__
            raise InputError(f"client {name}: it registered with what nobody can read ({kind})") from None


def _marks(given: Sequence[Any], slices: int) -> tuple[str, ...]:
    if len(given) != slices or not all(isinstance(mark, str) and HASH.fullmatch(mark) for mark in given):
        raise ValueError
    return tuple(given)


def _sizes(given: Sequence[Any], slices: int) -> tuple[int, ...]:
    if len(given) != slices or not all(type(size) is int and 0 <= size <= MOST_RECORDS for size in given):
        raise ValueError
    return tuple(given)


def _public_text(key: bytes) -> str:
    """As in the key's file: two words."""
    try:
        public = serialization.load_pem_public_key(key)
    except ValueError:
        return ""
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return public.public_bytes(*form).decode()
