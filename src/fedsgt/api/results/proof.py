"""Results of verification and audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from fedsgt.api.results.shown import table
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.proof.audit import Finding
    from fedsgt.proof.verify import Verification as FullVerification


@dataclass(frozen=True, repr=False)
class Verification:
    """Result of training served modules again, and making their statistics, and comparing the bytes."""

    passed: bool
    """Whether every module and statistic that was looked at is the same, bit for bit."""
    failed: bool
    """Whether one is not; neither is true if some cannot be compared on this machine."""
    counts: Mapping[str, int]
    """Number of modules by verdict."""
    statistic_counts: Mapping[str, int]
    """Number of statistics, from which heads are solved, by verdict."""
    served: int
    """Number of all modules that could be verified."""
    detail: FullVerification = field(compare=False)

    @classmethod
    def of(cls, found: FullVerification) -> Verification:
        """Make the result of a full verification."""
        return cls(found.passed, found.failed, found.counts, found.statistic_counts, found.served, found)

    def to_json(self) -> dict[str, Any]:
        """Return the verification for programs."""
        return self.detail.to_json()

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "FAILED" if self.failed else "undecided"
        counts = ", ".join(f"{number} {name}" for name, number in self.counts.items()) or "nothing to verify"
        shown = f"{counts} of {counted(self.served, 'module')} served"
        if self.statistic_counts:
            total = sum(self.statistic_counts.values())
            shown += f"; {self.statistic_counts.get('same', 0)} of {counted(total, 'statistic')} same"
        return f"<Verification {verdict}: {shown}>"

    def _repr_html_(self) -> str:
        rows = [
            (module.key[:12], " ".join(map(str, module.groups)), module.verdict)
            for module in self.detail.modules
        ]
        return table(("module", "groups", "verdict"), rows, repr(self)[1:-1])


@dataclass(frozen=True, repr=False)
class Audit:
    """Every file of a run with what it depends on."""

    clean: bool
    """Whether no file depends on deleted data, and nothing else is wrong."""
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> Audit:
        """Make the result of all findings."""
        return cls(not any(finding.problem for finding in findings), tuple(findings))

    @property
    def problems(self) -> list[Finding]:
        """Findings that need action."""
        return [finding for finding in self.findings if finding.problem is not None]

    def to_json(self) -> dict[str, Any]:
        """Return the audit for programs."""
        return {"ok": self.clean, "files": [asdict(finding) for finding in self.findings]}

    def __repr__(self) -> str:
        shown = (
            "clean" if self.clean else "; ".join(f"{one.name}: {one.problem}" for one in self.problems[:3])
        )
        return f"<Audit of {counted(len(self.findings), 'file')}: {shown}>"

    def _repr_html_(self) -> str:
        # Problems first: a run may have thousands of files.
        ordered = sorted(self.findings, key=lambda one: one.problem is None)
        rows = [(one.name, one.depends_on, one.problem or "") for one in ordered[:100]]
        return table(("file", "depends on", "problem"), rows, repr(self)[1:-1])
