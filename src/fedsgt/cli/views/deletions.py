"""Results of deletions, for `fedsgt unlearn`, its dry run and `fedsgt withdraw`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.federation.client.withdraw import Outcome, RunShare
    from fedsgt.reporting.impact import Impact, ServingState
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.unlearn import Receipt

MODULES_NAMED = 12  # a large run may lose thousands, which would fill the screen


def answer_json(folder: RunFolder, answer: Receipt) -> dict[str, Any]:
    """Return the answer to a request, and the numbers of live modules after it, for programs."""
    served, prefixes = _served(folder)
    return {
        "position": answer.position,
        "time": answer.time,
        "records": answer.records,
        "groups": answer.groups,
        "modules_died": answer.modules_died,
        "modules_destroyed": answer.destroyed,
        "repeated": answer.repeated,
        "live_modules": served,
        "live_sequences": len(prefixes),
        "certificate": str(answer.certificate),
    }


def answer_text(folder: RunFolder, answer: Receipt) -> str:
    """Return the answer to a request in a few lines; exhaustion comes first, as somebody must act on it."""
    served, prefixes = _served(folder)
    again = " (answered before; nothing new was done)" if answer.repeated else ""
    request = (
        f"request no. {answer.position}: {counted(answer.records, 'record')} deleted, "
        f"groups hit: {_listed(answer.groups)}; {counted(answer.destroyed, 'module')} destroyed{again}"
    )
    certificate = f"certificate {answer.certificate}"
    if not served:
        exhausted = f"EXHAUSTED: no module is live, nothing is served; next: fedsgt retrain {folder.path}"
        return "\n".join([exhausted, request, certificate])
    serving = (
        f"serving    {counted(served, 'module')} in {counted(len(prefixes), 'sequence')}, "
        f"the longest of {counted(max(map(len, prefixes)), 'group')}"
    )
    return "\n".join([request, serving, certificate])


def _served(folder: RunFolder) -> tuple[int, list[tuple[int, ...]]]:
    """Return the number of served modules and the live prefixes."""
    from fedsgt.reporting.history import count_live
    from fedsgt.runs.health import module_health

    live = folder.live()
    # By manifests only: an answer to a deletion does not wait until all modules are read.
    prefixes = [prefix for prefix in module_health(folder, live, tensors=False).prefixes if prefix]
    return count_live(prefixes).modules or 0, prefixes


def _listed(groups: list[int]) -> str:
    return ", ".join(map(str, groups)) or "none"


# --- a dry run


def dry_run_text(found: Impact) -> str:
    """Return the preview in words: the modules that would die, and the service before and after."""
    from fedsgt.runs.health import problem_lines

    before, after = found.before, found.after
    # A module is known by its prefix: keys would fill the screen and tell nothing.
    names = ["-".join(map(str, prefix)) for prefix in found.dying]
    shown = ", ".join(names[:MODULES_NAMED]) + (", ..." if len(names) > MODULES_NAMED else "")
    lines = [*problem_lines(found.problems), "dry run: nothing was changed"]
    if not after.live_counts.modules:
        lines.append("NOTHING WOULD BE LEFT TO SERVE: every module would be dead")
    lines += [
        f"would delete   {counted(found.records, 'record')}; groups hit: {_listed(found.groups)}",
        f"would destroy  {counted(len(names), 'module')}" + (f": {shown}" if names else ""),
        "",
        f"{'':<26}{'now':>10}{'then':>10}",
        _row("live modules", before.live_counts.modules, after.live_counts.modules),
        _row("sequences that serve", before.sequences, after.sequences),
        _row("groups of the longest", before.live_counts.groups, after.live_counts.groups),
        _row("requests until exhausted", _requests_left(before), _requests_left(after)),
    ]
    if before.accuracy is not None:
        lines.append(_row("accuracy, test records", _accuracy(before), _accuracy(after)))
    return "\n".join(lines)


def _row(name: str, now: object, then: object) -> str:
    return f"{name:<26}{now!s:>10}{then!s:>10}"


def _requests_left(state: ServingState) -> str:
    return f"{state.requests_left:.1f}" if math.isfinite(state.requests_left) else "no end"


def _accuracy(state: ServingState) -> str:
    return "none" if state.accuracy is None else f"{100 * state.accuracy:.1f} %"


# --- a client's own withdrawal


def share_json(share: RunShare) -> dict[str, Any]:
    """Return the records that a withdrawal would delete from one run, for programs."""
    return {"run": share.enrolment.run, "records": len(share.ids), "slices": share.counts()}


def shares_text(shares: list[RunShare]) -> str:
    """Return the records that a withdrawal would delete, a line for each run."""
    lines = ["dry run: nothing was sent or changed"]
    for share in shares:
        parts = ", ".join(f"{count} of slice {index}" for index, count in share.counts().items())
        lines.append(f"run {share.enrolment.run}: would delete {counted(len(share.ids), 'record')} ({parts})")
    return "\n".join(lines)


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a withdrawal in one run, for programs; the certificate is in its own file."""
    granted = outcome.granted.model_dump(exclude={"certificate"}) if outcome.granted else {}
    place = None if outcome.certificate is None else str(outcome.certificate)
    message = {"message": outcome.message} if outcome.message else {}
    return {"run": outcome.run, "state": outcome.state, **message, **granted, "certificate": place}


def outcome_text(outcome: Outcome) -> str:
    """Return the outcome of a withdrawal in one run, in words."""
    granted = outcome.granted
    if granted is None:
        return f"run {outcome.run}: {outcome.message}"
    return (
        f"run {outcome.run}: request no. {granted.position}: {counted(granted.records, 'record')} deleted, "
        f"groups hit: {_listed(granted.groups)}\n"
        f"certificate {outcome.certificate}"
    )
