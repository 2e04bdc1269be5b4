"""State of a run: its clients, its status and its forecast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite, isinf
from typing import TYPE_CHECKING, Any, overload

from fedsgt.api.results.shown import accuracy_text, facts, share, table
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.reporting.status import RunStatus
    from fedsgt.serving.accuracy import Accuracy


@dataclass(frozen=True)
class ClientInfo:
    """A client of a run: what it holds, and what is left of it."""

    name: str
    records: int
    """Number of records that the run learnt from at first, or since its last training."""
    left: int
    """Number of its records that are not deleted."""
    slices: int
    groups: tuple[int, ...]
    """Groups that its slices are in."""
    remote: bool
    """Whether it holds its records on a machine of its own."""

    def to_json(self) -> dict[str, Any]:
        """Return the client for programs."""
        return asdict(self) | {"groups": list(self.groups)}


@dataclass(frozen=True, repr=False)
class Clients(Sequence[ClientInfo]):
    """The clients of a run, in the order of their numbers."""

    members: tuple[ClientInfo, ...]

    @property
    def names(self) -> list[str]:
        """Names of the clients."""
        return [client.name for client in self.members]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the clients for programs."""
        return [client.to_json() for client in self.members]

    @overload
    def __getitem__(self, index: int) -> ClientInfo: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ClientInfo]: ...
    def __getitem__(self, index: int | slice) -> ClientInfo | Sequence[ClientInfo]:
        return self.members[index]

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[ClientInfo]:
        return iter(self.members)

    def __repr__(self) -> str:
        shown = ", ".join(f"{one.name} ({one.left} of {one.records})" for one in self.members[:5])
        return f"<{counted(len(self), 'client')}: {shown}{', ...' if len(self) > 5 else ''}>"

    def _repr_html_(self) -> str:
        rows = [
            (one.name, one.records, one.left, one.slices, ", ".join(map(str, one.groups)))
            for one in self.members
        ]
        return table(("client", "records", "left", "slices", "groups"), rows)


@dataclass(frozen=True, repr=False)
class Status:
    """State of a run: what is live, what came, and how long it will last."""

    live_modules: int
    modules: int
    """Number of modules that the plan wants."""
    live_groups: int
    """Number of groups behind the longest live sequence."""
    groups: int
    requests: int
    exhausted: bool
    """Whether nothing is served; with solved heads, only if no record is left."""
    advice: str
    solved_from: int
    """Number of records behind solved heads; 0 if trained heads answer."""
    detail: RunStatus = field(compare=False)

    @classmethod
    def of(cls, found: RunStatus) -> Status:
        """Make the result of a run's full status."""
        counts = found.live_counts
        return cls(
            counts.modules or 0,
            found.modules,
            counts.groups or 0,
            found.groups,
            len(found.past.requests),
            found.exhausted,
            found.advice(),
            found.heads.records if found.heads is not None else 0,
            found,
        )

    @property
    def accuracy(self) -> Accuracy | None:
        """Accuracy of what is served, with its interval; None if it is not known."""
        return self.detail.accuracy

    def to_json(self) -> dict[str, Any]:
        """Return the status for programs."""
        return self.detail.to_json()

    def __repr__(self) -> str:
        return f"<Status: {self._live()}; {self.advice}>"

    def _repr_html_(self) -> str:
        from fedsgt.reporting.module_tree import draw_tree

        accuracy = self.accuracy
        pairs = [
            ("live", self._live()),
            ("accuracy", "not known" if accuracy is None else accuracy_text(accuracy)),
            ("requests so far", self.requests),
            ("advice", self.advice),
        ]
        return f"{facts(pairs)}{draw_tree(self.detail)[0]}"

    def _live(self) -> str:
        if not self.live_modules and self.solved_from:
            head = f"a head of {counted(self.solved_from, 'record')}"
            return f"no module is live, the bare backbone answers with {head}"
        return (
            f"{self.live_modules} of {counted(self.modules, 'module')} live, the longest sequence has "
            f"{self.live_groups} of {counted(self.groups, 'group')}"
        )


@dataclass(frozen=True, repr=False)
class Forecast:
    """Expected service after 0, 1, 2, ... further requests."""

    alive: tuple[float, ...]
    """Chance that something is still served."""
    live_groups: tuple[float, ...]
    """Expected number of groups behind the longest live sequence."""
    accuracy: tuple[float | None, ...]
    """Expected accuracy if something is still served; empty if the run was not evaluated."""
    requests_left: float
    """Expected number of requests up to and with the one that leaves nothing; may be infinite.

    With solved heads it is: something answers while a record is left.
    """
    some_module: tuple[float, ...]
    """Chance that a module is live."""
    until_no_module: float
    """Expected number of requests up to and with the one that leaves no module; may be infinite."""

    @classmethod
    def of(cls, found: RunStatus) -> Forecast:
        """Make the forecast of a run's full status."""
        ahead, served = found.forecast, found.accuracy
        expected = [found.expected_accuracy(count) for count in range(1, len(ahead.alive))]
        accuracy = (served, *expected) if served is not None else ()
        return cls(
            tuple(map(float, ahead.alive)),
            tuple(map(float, ahead.live_groups)),
            tuple(None if one is None else one.accuracy for one in accuracy),
            ahead.requests_left,
            tuple(map(float, ahead.some_module)),
            ahead.until_no_module,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the forecast for programs; null stands for infinite or unknown."""
        ends = {"requests_left": self.requests_left, "until_no_module": self.until_no_module}
        return asdict(self) | {name: end if isfinite(end) else None for name, end in ends.items()}

    def __repr__(self) -> str:
        last = len(self.alive) - 1
        if isinf(self.requests_left) and self.alive[-1] == 1:
            return (
                "<Forecast: never exhausted while a record is left; some module is live after "
                f"{counted(last, 'further request')} with {self.some_module[-1]:.1%}>"
            )
        return (
            f"<Forecast: still served after {counted(last, 'further request')} with {self.alive[-1]:.1%}; "
            f"about {self.requests_left:.1f} until nothing is live>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                count,
                f"{self.alive[count]:.1%}",
                f"{self.some_module[count]:.1%}",
                f"{self.live_groups[count]:.2f}",
                share(dict(enumerate(self.accuracy)).get(count)),
            )
            for count in range(len(self.alive))
        ]
        headers = (
            "further requests",
            "still served",
            "some module live",
            "expected live groups",
            "expected accuracy",
        )
        return table(headers, rows)
