"""Findings of `fedsgt verify` and `fedsgt audit`, with every problem before all else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.proof.audit import Finding
    from fedsgt.proof.verify import Verification


def verification_text(found: Verification) -> str:
    """Return the verdict, a line for each module, and what else the reader must know."""
    if not found.modules:
        nothing = f"no module is served at ledger position {found.position}: there is nothing to verify"
        return "\n".join([nothing, *_remarks(found)])
    lines = [_verdict(found), "", f"{'module':<14}{'groups':<16}verdict"]
    for module in found.modules:
        reason = "" if module.verdict == "same" else f": {module.reason}"
        groups = " ".join(map(str, module.groups))
        lines.append(f"{module.key[:12]:<14}{groups:<16}{module.verdict}{reason}")
    return "\n".join([*lines, "", _counts(found), *_remarks(found)])


def _verdict(found: Verification) -> str:
    bad = {module.verdict for module in found.modules} - {"same", "not comparable"}
    if bad and bad <= {"damaged", "missing"}:
        what = " and ".join(sorted(bad))
        return f"FAILED: {what} modules, which are not served; fedsgt retrain makes them again"
    if found.failed:
        return "FAILED: something is there, or was, that the retained data does not account for"
    if not found.passed:
        return "UNDECIDED: verify on a machine like the one that trained"
    return "passed: every module looked at is, bit for bit, what the retained data gives"


def _counts(found: Verification) -> str:
    counts = ", ".join(f"{number} {verdict}" for verdict, number in found.counts.items())
    return (
        f"{counts}; of {counted(found.served, 'module')} served at ledger position {found.position}, "
        f"in {found.seconds:.0f} s"
    )


def _remarks(found: Verification) -> Iterator[str]:
    if found.sample is not None:
        yield f"a sample of {found.sample} and parents; --seed {found.seed} draws it again"
    if found.unfinished:
        numbers = ", ".join(map(str, found.unfinished))
        yield f"unfinished requests, no. {numbers}: their bytes may still be there"
    for choice in found.data_dependent_choices:
        yield f"weaker than it looks: {choice}, and may carry traces of data deleted later"


def audit_text(found: Sequence[Finding]) -> str:
    """Return the files with a problem, then all files with what they depend on, then the verdict."""
    bad = [finding for finding in found if finding.problem is not None]
    # Problems come first and once more in their place: a run may have thousands of files.
    lines = [f"FAILED: {finding.name}: {finding.problem}" for finding in bad]
    lines += [""] if bad else []
    width = max(len(finding.name) for finding in found)
    for finding in found:
        mark = f"  PROBLEM: {finding.problem}" if finding.problem else ""
        lines.append(f"{finding.name:<{width}}  {finding.depends_on}{mark}")
    verdict = f"{len(bad)} with a problem" if bad else "none depends on deleted data"
    return "\n".join([*lines, "", f"{counted(len(found), 'file')}: {verdict}"])
