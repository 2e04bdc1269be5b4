"""Findings of `fedsgt verify` and `fedsgt audit`, with every problem before all else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.proof.audit import Finding
    from fedsgt.proof.verify import Verification


def verification_text(found: Verification) -> str:
    """Return the verdict, a line for each module and each wrong statistic, and what else matters."""
    if not found.modules and not found.statistics:
        nothing = f"no module is served at ledger position {found.position}: there is nothing to verify"
        return "\n".join([nothing, *_remarks(found)])
    lines = [f"{'module':<14}{'groups':<16}verdict"] if found.modules else []
    for module in found.modules:
        reason = "" if module.verdict == "same" else f": {module.reason}"
        lines.append(f"{module.key[:12]:<14}{_groups(module.groups):<16}{module.verdict}{reason}")
    wrong = [statistic for statistic in found.statistics if statistic.verdict != "same"]
    # Thousands may be right, and those need no line each.
    lines += [f"{one.file}, of client {one.client}: {one.verdict}: {one.reason}" for one in wrong]
    listed = ["", *lines] if lines else []
    return "\n".join([_verdict(found), *listed, "", *_statistics(found), _counts(found), *_remarks(found)])


def _groups(groups: Sequence[int]) -> str:
    return " ".join(map(str, groups))


def _verdict(found: Verification) -> str:
    modules = {module.verdict for module in found.modules} - {"same", "not comparable"}
    statistics = {statistic.verdict for statistic in found.statistics} - {"same", "not comparable"}
    bad = modules | statistics
    if bad and bad <= {"damaged", "missing"}:
        what = " and ".join(sorted(bad))
        if not modules:
            return f"FAILED: {what} statistics, which no head is solved from; fedsgt heads makes them again"
        return f"FAILED: {what} modules, which are not served; fedsgt retrain makes them again"
    if found.failed:
        return "FAILED: something is there, or was, that the retained data does not account for"
    if not found.passed:
        return "UNDECIDED: verify on a machine like the one that trained"
    if not found.statistics:
        return "passed: every module looked at is, bit for bit, what the retained data gives"
    what = "every module looked at" if found.modules else "every statistic looked at"
    also = ", and so is every statistic" if found.modules else ""
    return f"passed: {what} is, bit for bit, what the retained data gives{also}"


def _statistics(found: Verification) -> Iterator[str]:
    """Yield a line on the statistics, from which heads are solved; none if the run has none."""
    if found.statistics:
        chains = len({statistic.file.split("/")[1] for statistic in found.statistics})
        number = f"{counted(len(found.statistics), 'statistic')} of {counted(chains, 'chain')}"
        same = found.statistic_counts.get("same", 0)
        if same == len(found.statistics):
            yield f"{number} made again: the same, bit for bit"
        else:
            others = [f"{count} {verdict}" for verdict, count in found.statistic_counts.items()]
            yield f"{number}: {', '.join(others)}"
    if found.waiting:
        yield f"{counted(found.waiting, 'statistic')} not made yet; fedsgt heads makes them"


def _counts(found: Verification) -> str:
    if not found.served and not found.modules:
        return (
            f"the run serves no module at ledger position {found.position}; verified in {found.seconds:.0f} s"
        )
    counts = ", ".join(f"{number} {verdict}" for verdict, number in found.counts.items()) or "no module"
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
