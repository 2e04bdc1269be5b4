"""Results of deletions and of their previews."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsgt.api.results.shown import accuracy_text, facts, listed, table
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.reporting.accuracy import AccuracyChange
    from fedsgt.reporting.impact import Impact
    from fedsgt.serving.accuracy import Accuracy
    from fedsgt.unlearning.changes import ClientShare
    from fedsgt.unlearning.unlearn import Receipt as FullReceipt


@dataclass(frozen=True, repr=False)
class Preview:
    """Effects that a deletion would have; nothing was changed."""

    records: int
    """Number of records that would go."""
    groups: tuple[int, ...]
    modules: int
    """Number of trained modules that would be destroyed."""
    accuracy_before: Accuracy | None
    accuracy: Accuracy | None
    """Accuracy of what would be left; None if nothing would serve, or it is not known."""
    detail: Impact = field(compare=False)

    @classmethod
    def of(cls, found: Impact) -> Preview:
        """Make the result of a preview."""
        now, then = found.before.accuracy, found.after.accuracy
        return cls(found.records, tuple(found.groups), len(found.dying), now, then, found)

    @property
    def exhausting(self) -> bool:
        """Whether nothing would be left to serve."""
        return self.detail.after.exhausted

    def to_json(self) -> dict[str, Any]:
        """Return the preview for programs."""
        return self.detail.to_json()

    def __repr__(self) -> str:
        shown = ""
        if self.accuracy is not None and self.accuracy_before is not None:
            shown = f", accuracy {self.accuracy_before.accuracy:.1%} -> {self.accuracy.accuracy:.1%}"
        end = ", NOTHING WOULD BE LEFT TO SERVE" if self.exhausting else ""
        return (
            f"<Preview: {counted(self.records, 'record')} would go, groups hit: {listed(self.groups)}, "
            f"{counted(self.modules, 'module')} would be destroyed{shown}{end}>"
        )

    def _repr_html_(self) -> str:
        before, after = self.detail.before, self.detail.after
        rows = [
            ("live modules", before.live_counts.modules, after.live_counts.modules),
            ("sequences that serve", before.sequences, after.sequences),
            ("groups of the longest", before.live_counts.groups, after.live_counts.groups),
            ("accuracy", _shown(self.accuracy_before), _shown(self.accuracy)),
        ]
        return table(("", "now", "then"), rows, repr(self)[1:-1])


@dataclass(frozen=True, repr=False)
class Receipt:
    """Answer to a deletion: it is in force."""

    number: int
    """Number of the request, which is its position in the ledger."""
    in_force: bool
    """Always true: a deletion that is not in force raises an error."""
    records: int
    groups: tuple[int, ...]
    """Groups that were hit."""
    modules: int
    """Number of trained modules that were destroyed, or are to be."""
    pending: str | None
    """Work that is not done yet and why; None once the deletion is complete."""
    certificate: Path | None
    accuracy: Accuracy | None
    """Accuracy of what is still served, with its interval; None if it is not known."""
    clients: tuple[ClientShare, ...]
    """Clients whose records went."""
    detail: FullReceipt = field(compare=False)
    change: AccuracyChange | None = field(default=None, compare=False)
    """Accuracy now, before the deletion, and as it was expected; advice, if accuracy asks for some."""

    @classmethod
    def of(cls, found: FullReceipt, clients: Sequence[ClientShare], change: AccuracyChange | None) -> Receipt:
        """Make the answer of a full receipt."""
        return cls(
            found.position,
            found.in_force,
            found.records,
            tuple(found.groups),
            found.destroyed,
            found.pending,
            found.certificate,
            None if change is None else change.now,
            tuple(clients),
            found,
            change,
        )

    @property
    def complete(self) -> bool:
        """Whether everything that depends on the records is destroyed, and the certificate written."""
        return self.pending is None

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs."""
        found = self.detail
        return {
            "position": self.number,
            "time": found.time,
            "in_force": self.in_force,
            "pending": self.pending,
            "records": self.records,
            "clients": [one.to_json() for one in self.clients],
            "groups": list(self.groups),
            "modules_died": found.modules_died,
            "modules_destroyed": self.modules,
            "sources": list(found.sources),
            "repeated": found.repeated,
            "certificate": None if self.certificate is None else str(self.certificate),
            "accuracy": None if self.change is None else self.change.to_json(),
        }

    def __repr__(self) -> str:
        known = "" if self.accuracy is None else f", accuracy now {accuracy_text(self.accuracy)}"
        state = "complete" if self.complete else f"in force; {self.pending}"
        return (
            f"<Receipt no. {self.number}, {state}: {counted(self.records, 'record')} deleted, groups hit: "
            f"{listed(self.groups)}, {counted(self.modules, 'module')} destroyed{known}>"
        )

    def _repr_html_(self) -> str:
        pairs = [
            ("records deleted", self.records),
            ("clients", ", ".join(one.client for one in self.clients)),
            ("groups hit", listed(self.groups)),
            ("modules destroyed", self.modules),
            ("accuracy now", _shown(self.accuracy)),
            ("certificate", self.certificate or self.pending),
        ]
        return facts(pairs, f"request no. {self.number}")


def _shown(found: Accuracy | None) -> str:
    return "not known" if found is None else accuracy_text(found)
