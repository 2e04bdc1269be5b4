"""Registration of remote clients before a run: each is asked for its slices, and its answer is checked."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedsgt.data import RemoteClient
from fedsgt.engine.events import ClientTrouble, Listener, Note
from fedsgt.engine.flower.messages import size_of, text_message, text_of
from fedsgt.engine.flower.orders import Connection
from fedsgt.engine.flower.transport import AWAY, MOST_FAILURES, reason
from fedsgt.errors import InputError
from fedsgt.words import LONGEST_MESSAGE, printable

HASH = re.compile(r"[0-9a-f]{64}")
MOST_RECORDS = 1_000_000_000  # records in a slice; larger numbers could only make sums overflow
MOST_BYTES = 4 << 20  # characters of a registration; fingerprints of ten thousand slices take a part of that


class Registration:
    """Asks clients to register as they connect, until each has answered.

    `abouts` has the facts about the run that each client is told, `keys` the public keys, both by client.
    With `strict` a client that cannot register is an error; without, it is told and left out.
    """

    def __init__(
        self,
        grid: Grid,
        connections: Callable[[], Mapping[str, Connection]],
        keys: Mapping[str, str],
        abouts: Mapping[str, Mapping[str, Any]],
        tell: Listener,
        strict: bool = True,
    ) -> None:
        self.grid, self.connections, self.keys, self.abouts = grid, connections, keys, abouts
        self.tell, self.strict = tell, strict
        self.found: dict[str, RemoteClient] = {}
        self.left_out: set[str] = set()
        self.asked: dict[str, str] = {}
        """Clients that were asked and have not answered, by Flower's id of the message."""
        self.failures: Counter[str] = Counter()
        self.told = ""

    def missing(self) -> list[str]:
        """Return the clients that have not registered yet."""
        return [name for name in self.abouts if name not in self.found and name not in self.left_out]

    def run(self, stand_in: Callable[[str], RemoteClient] | None, seconds: float, pause: float) -> None:
        """Let all clients register; after so many seconds, `stand_in` answers for those that have not."""
        deadline = time.monotonic() + seconds
        while self.missing():
            if stand_in is not None and time.monotonic() > deadline:
                for name in self.missing():
                    self._find(name, partial(stand_in, name))
                return
            self._step()
            time.sleep(pause if self.missing() else 0)

    def _step(self) -> None:
        """Ask the clients that are connected by now, and read the answers that have come."""
        connections = self.connections()
        waiting = [name for name in self.missing() if name not in self.asked.values()]
        for name in waiting:
            if name in connections:
                self._ask(name, connections[name])
        self._tell_absent(sorted(set(waiting) - connections.keys()))
        for reply in self.grid.pull_messages(list(self.asked)) if self.asked else ():
            client = self.asked.pop(reply.metadata.reply_to_message_id, None)
            if client is not None and reply.has_error():
                self._failed(client, reply)
            elif client is not None:
                slices, key = self.abouts[client]["slices"], self.keys[client]
                self._find(client, partial(read_registration, client, key, slices, reply))

    def _find(self, name: str, register: Callable[[], RemoteClient]) -> None:
        """Keep the client as it registers, or leave it out if it cannot."""
        try:
            self.found[name] = register()
        except InputError as error:
            self._leave_out(name, error)

    def _leave_out(self, name: str, error: InputError) -> None:
        if self.strict:
            raise error
        self.tell(ClientTrouble(name, str(error).removeprefix(f"client {name}").lstrip(": ")))
        self.left_out.add(name)

    def _ask(self, name: str, connection: Connection) -> None:
        message = Message(text_message(self.abouts[name]), connection.node, "query.register")
        (number,) = self.grid.push_messages([message])
        self.asked[number] = name

    def _tell_absent(self, names: Sequence[str]) -> None:
        line = f"waiting for {', '.join(names)} to connect"
        if names and line != self.told:  # noted, so that it is told once and not at every step
            self.tell(Note(line))
            self.told = line

    def _failed(self, name: str, reply: Message) -> None:
        self.tell(Note(f"client {name} did not register ({reason(reply)}); asking again"))
        # A client that is away may come back and is asked again; a program that failed would fail again.
        self.failures[name] += reply.error.code not in AWAY
        if self.failures[name] >= MOST_FAILURES:
            self._leave_out(name, InputError(f"client {name} cannot register ({reason(reply)})"))


def read_registration(name: str, key: str, slices: int, reply: Message) -> RemoteClient:
    """Read a client's registration, which may be anything."""
    try:
        # The length is checked before JSON is read: a huge text would cost the server its memory.
        if size_of(reply.content) > MOST_BYTES:
            raise ValueError
        said = text_of(reply.content)
        if said.get("problem"):
            raise InputError(f"client {name}: {printable(said['problem'], LONGEST_MESSAGE)}")
        fingerprints, sizes = _fingerprints(said["fingerprints"], slices), _sizes(said["records"], slices)
        profile = {str(key): str(value) for key, value in dict(said["profile"]).items()}
        return RemoteClient(name, fingerprints, sizes, key, str(said["backbone"]), profile)
    except InputError:
        raise
    except Exception as error:  # a hostile text can make JSON fail in many ways
        kind = type(error).__name__
        raise InputError(f"client {name}: invalid registration ({kind}); see its executor.log") from None


def _fingerprints(given: Sequence[Any], slices: int) -> tuple[str, ...]:
    if len(given) != slices or not all(
        isinstance(fingerprint, str) and HASH.fullmatch(fingerprint) for fingerprint in given
    ):
        raise ValueError
    return tuple(given)


def _sizes(given: Sequence[Any], slices: int) -> tuple[int, ...]:
    if len(given) != slices or not all(type(size) is int and 0 <= size <= MOST_RECORDS for size in given):
        raise ValueError
    return tuple(given)
