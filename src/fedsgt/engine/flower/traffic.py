"""Messages and bytes that a training exchanges with each client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class ClientTraffic:
    """Messages and bytes exchanged with one client."""

    messages: int = 0
    """Number of messages with orders that it was sent: the rounds that it was called to."""
    modules: int = 0
    """Number of updates asked of it: its rounds if each module travelled alone, as in the paper."""
    down: int = 0
    """Bytes sent to the client, also for statistics."""
    up: int = 0
    """Bytes received from the client, also of statistics."""


@dataclass
class Traffic:
    """Messages and bytes of one or more trainings."""

    rounds: int = 0
    """Number of times that messages went out to all clients that were needed."""
    clients: dict[str, ClientTraffic] = field(default_factory=dict)

    def of_client(self, client: str) -> ClientTraffic:
        """Return the entry of this client, to be added to."""
        return self.clients.setdefault(client, ClientTraffic())

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the traffic that `dataclasses.asdict` gave this object for."""
        clients = {name: ClientTraffic(**entry) for name, entry in value["clients"].items()}
        return cls(value["rounds"], clients)

    def plus(self, other: Traffic) -> Traffic:
        """Return the sum of both, client by client."""
        names, none = sorted(self.clients.keys() | other.clients.keys()), ClientTraffic()
        both = ((self.clients.get(name, none), other.clients.get(name, none)) for name in names)
        sums = [
            ClientTraffic(a.messages + b.messages, a.modules + b.modules, a.down + b.down, a.up + b.up)
            for a, b in both
        ]
        return Traffic(self.rounds + other.rounds, dict(zip(names, sums, strict=True)))

    def mean(self, what: str) -> float:
        """Return the mean of one field over all clients that were called at all; 0 if none was."""
        total = sum(getattr(entry, what) for entry in self.clients.values())
        return float(total) / max(1, len(self.clients))
