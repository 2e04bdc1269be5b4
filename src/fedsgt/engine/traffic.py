"""What a training costs on the wire, client by client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Line:
    """One client's."""

    messages: int = 0
    """Orders that it was sent: the rounds that it was called to."""
    modules: int = 0
    """Updates that were asked of it: its rounds, if each module travelled alone as in the paper."""
    down: int = 0
    """Bytes to the client."""
    up: int = 0


@dataclass
class Traffic:
    """Over all trainings so far."""

    rounds: int = 0
    """Times that messages went out to all who were needed."""
    clients: dict[str, Line] = field(default_factory=dict)

    def line(self, client: str) -> Line:
        return self.clients.setdefault(client, Line())

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Self:
        return cls(said["rounds"], {name: Line(**line) for name, line in said["clients"].items()})

    def plus(self, other: Traffic) -> Traffic:
        names = sorted(self.clients.keys() | other.clients.keys())
        both = ((self.clients.get(name, Line()), other.clients.get(name, Line())) for name in names)
        lines = [
            Line(a.messages + b.messages, a.modules + b.modules, a.down + b.down, a.up + b.up)
            for a, b in both
        ]
        return Traffic(self.rounds + other.rounds, dict(zip(names, lines, strict=True)))

    def mean(self, what: str) -> float:
        """Of all clients that were called at all."""
        return float(sum(getattr(line, what) for line in self.clients.values())) / max(1, len(self.clients))
