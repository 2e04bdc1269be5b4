"""Results of deletions, for `fedsgt unlearn`, its dry run and `fedsgt withdraw`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from fedsgt.cli.views.evaluation import accuracy_words
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.federation.client.withdraw import Outcome, RunShare
    from fedsgt.reporting.accuracy import AccuracyChange
    from fedsgt.reporting.impact import Impact, ServingState
    from fedsgt.runs.folder import RunFolder
    from fedsgt.unlearning.changes import Changes, ClientShare
    from fedsgt.unlearning.unlearn import Receipt

URGENT, SOON = "bold red", "bold yellow"  # styles of what is to be done at once, and soon
MODULES_NAMED = 12  # a large run may lose thousands, which would fill the screen


def answer_json(folder: RunFolder, answer: Receipt, change: AccuracyChange | None = None) -> dict[str, Any]:
    """Return the answer to a request, and the numbers of live modules after it, for programs."""
    served, prefixes = _served(folder)
    return {
        "position": answer.position,
        "time": answer.time,
        "in_force": answer.in_force,
        "pending": answer.pending,
        "records": answer.records,
        "clients": [share.to_json() for share in _shares(folder, answer)],
        "groups": answer.groups,
        "modules_died": answer.modules_died,
        "modules_destroyed": answer.destroyed if _is_finished(folder, answer) else 0,
        "files_destroyed": _destroyed_files(folder, answer) if _is_finished(folder, answer) else [],
        "sources": list(answer.sources),
        "repeated": answer.repeated,
        "live_modules": served,
        "live_sequences": len(prefixes),
        "solved_heads": _solved(folder),
        "accuracy": None if change is None else change.to_json(),
        "certificate": None if answer.certificate is None else str(answer.certificate),
        "key_changes": list(answer.key_changes),
    }


def answer_text(folder: RunFolder, answer: Receipt, change: AccuracyChange | None = None) -> Text:
    """Return the answer to a request in a few lines; first what somebody must act on, in colour."""
    served, prefixes = _served(folder)
    again = " (answered before; nothing new was done)" if answer.repeated else ""
    finished, files = _is_finished(folder, answer), _destroyed_files(folder, answer)
    gone, modules = ("", answer.destroyed) if finished else ("to be ", answer.modules_died)
    lines = [
        f"request no. {answer.position}: {counted(answer.records, 'record')} deleted, "
        f"groups hit: {_listed(answer.groups)}; {counted(modules, 'module')} {gone}destroyed{again}",
        *(f"client     {share_text(share)}" for share in _shares(folder, answer)),
        f"files      {counted(len(files), 'file')} of the run {gone}destroyed or cut",
        *(f"source     {source_text(source)}" for source in answer.sources),
    ]
    solved = _solved(folder)
    if served or solved:
        lines += [
            f"serving    {_serving_text(folder, prefixes, served, solved)}",
            f"accuracy   {_accuracy_text(folder, change)}",
        ]
    if answer.certificate is not None:
        lines.append(f"certificate {answer.certificate}")
    return Text("\n").join([*_urgent(folder, answer, bool(served or solved), change), *map(Text, lines)])


def _urgent(folder: RunFolder, answer: Receipt, served: bool, change: AccuracyChange | None) -> list[Text]:
    """Return what somebody must act on: red for at once, yellow for soon."""
    lines = [Text(f"the deletion is in force; {answer.pending}", URGENT)] if answer.pending else []
    if not served:
        return [*lines, Text(_nothing_served(folder), URGENT)]
    if change is None:
        return lines
    if change.fell_far and change.now is not None and change.before is not None:
        fell = f"accuracy fell from {change.before.accuracy:.1%} to {change.now.accuracy:.1%}"
        lines.append(Text(f"{fell} with this deletion; next: fedsgt retrain {folder.path}", SOON))
    if change.advice is not None:
        lines.append(Text(change.advice.words, URGENT if change.advice.urgency == "now" else SOON))
    if change.better is not None:
        lines.append(Text(f"{change.better.words()}", SOON))
    return lines


def _nothing_served(folder: RunFolder) -> str:
    """Say that nothing is served, and what brings the run back."""
    from fedsgt.reporting.heads import a_record_is_left
    from fedsgt.serving.heads import solves

    if not a_record_is_left(folder.live()):
        return "EXHAUSTED: no record is left, nothing is served"
    if solves(folder.config):
        made = f"fedsgt heads {folder.path} makes it"
        return f"nothing is served until a head of the records that are left is made; {made}"
    return f"EXHAUSTED: no module is live, nothing is served; next: fedsgt retrain {folder.path}"


def _solved(folder: RunFolder) -> bool:
    """Whether solved heads answer, those of the other clients at least."""
    from fedsgt.reporting.heads import solved_heads_answer

    return solved_heads_answer(folder, folder.live())


def _serving_text(folder: RunFolder, prefixes: list[tuple[int, ...]], served: int, solved: bool) -> str:
    if not served:
        none = "no module is live" if folder.description.modules else "the plan has no modules"
        return f"{none}; the bare backbone answers with a solved head"
    heads = ", and the bare backbone, with solved heads" if solved else ""
    return (
        f"{counted(served, 'module')} in {counted(len(prefixes), 'sequence')}, "
        f"the longest of {counted(max(map(len, prefixes)), 'group')}{heads}"
    )


def _accuracy_text(folder: RunFolder, change: AccuracyChange | None) -> str:
    """Return the accuracy now, before and as it was expected, or how to get it."""
    if change is None or change.now is None or change.test_records is None:
        return f"not known; fedsgt evaluate {folder.path} measures it"
    told = accuracy_words(change.now, change.strategy, change.test_records)
    now = f"{change.now.accuracy:.1%} ({told})"
    before = "" if change.before is None else f"; {change.before.accuracy:.1%} before"
    expected = "" if change.expected is None else f"; {change.expected:.1%} was expected"
    return f"{now}{before}{expected}"


def print_text(text: Text) -> None:
    """Print to standard output: coloured on a terminal, plain elsewhere, and no line is broken."""
    Console(highlight=False).print(text, soft_wrap=True)


def warnings_of(answer: Receipt) -> list[str]:
    """Return what is said on standard error besides the answer: files that keep rows, a change of keys."""
    unread = [
        f"{path} cannot be read, so deleted records were not taken out of it" for path in answer.unreadable
    ]
    kept = [
        f"deleted records are still there, {source['file']}: {source['reason']}"
        for source in answer.sources
        # That a file stays as it is by its owner's wish is in the answer, and needs no warning.
        if source["rows"] and source["reason"] and not source["reason"].startswith("data.erase")
    ]
    return [*unread, *kept, *answer.key_changes]


def share_text(share: ClientShare) -> str:
    """Return whose records go, in words."""
    slices = ", ".join(map(str, share.slices))
    named = f"slice{'' if len(share.slices) == 1 else 's'} {slices}"
    whole = {"client": "everything", "slice": named, "records": f"in {named}"}[share.scope]
    return (
        f"{share.client}: {counted(share.records, 'record')} ({whole}); "
        f"{counted(share.left, 'record')} {'is' if share.left == 1 else 'are'} left"
    )


def source_text(source: Mapping[str, Any]) -> str:
    """Return what happens to a file of the clients' records, in words."""
    rows, images = counted(source["rows"], "row"), counted(source["rows"], "image")
    if source["action"] in ("rewritten", "removed"):
        done = f"rewritten without {rows}" if source["action"] == "rewritten" else f"{images} removed"
        return f"{source['file']}: {done}" + (f", but {source['reason']}" if source["reason"] else "")
    if not source["rows"]:
        return f"{source['file']}: not changed ({source['reason']})"
    stays = "stays" if source["rows"] == 1 else "stay"
    return f"{source['file']}: not changed, {rows} {stays} in it ({source['reason']})"


def _is_finished(folder: RunFolder, answer: Receipt) -> bool:
    """Whether the files of the request are destroyed; a pending certificate does not count."""
    return answer.position in folder.live().finished


def _shares(folder: RunFolder, answer: Receipt) -> list[ClientShare]:
    from fedsgt.unlearning.changes import client_shares

    live = folder.live()
    request = next(entry for entry in live.requests if entry.position == answer.position)
    return client_shares(live, request.body)


def _destroyed_files(folder: RunFolder, answer: Receipt) -> list[str]:
    from fedsgt.unlearning.changes import destroyed_files

    return destroyed_files(folder, answer.position)


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
    from fedsgt.plans import STRATEGY_NAMES
    from fedsgt.runs.health import problem_lines

    before, after = found.before, found.after
    # A module is known by its prefix: keys would fill the screen and tell nothing.
    names = ["-".join(map(str, prefix)) for prefix in found.dying]
    shown = ", ".join(names[:MODULES_NAMED]) + (", ..." if len(names) > MODULES_NAMED else "")
    lines = [*problem_lines(found.problems), "dry run: nothing was changed"]
    if after.exhausted:
        dead = "every module would be dead" if found.plan_has_modules else "the plan has no modules"
        why = "no record would be left" if before.solved else dead
        lines.append(f"NOTHING WOULD BE LEFT TO SERVE: {why}")
    elif not found.plan_has_modules:
        lines.append("the plan has no modules; the bare backbone would go on answering with a solved head")
    elif not after.live_counts.modules:
        lines.append("every module would be dead; the bare backbone would answer with a solved head")
    lines += [
        f"would delete   {counted(found.records, 'record')}; groups hit: {_listed(found.groups)}",
        *(f"  client       {share_text(share)}" for share in found.changes.clients),
        f"would destroy  {counted(len(names), 'module')}" + (f": {shown}" if names else ""),
        f"  files        {_files(found.changes)}",
        *(f"  source       {source_text(source)}" for source in found.changes.sources),
        "",
        f"{'':<26}{'now':>10}{'then':>10}",
        *(_module_rows(before, after) if found.plan_has_modules else []),
        _row("requests until exhausted", _requests_left(before), _requests_left(after)),
    ]
    if before.accuracy is not None:
        lines.append(_row(f"accuracy, {STRATEGY_NAMES[found.strategy]}", _accuracy(before), _accuracy(after)))
        lines.append(_row("  95 % interval", _interval(before), _interval(after)))
        if after.solved:
            lines.append(
                "accuracy then is expected: heads are solved from statistics as they are now, without "
                "those of clients that lose more than half of their records"
            )
    if after.better is not None:
        lines.append(f"then {after.better.words()}")
    return "\n".join(lines)


def _files(changes: Changes) -> str:
    """Return the files of the run that would change: how many of each folder go, and which are shortened."""
    folders = Counter(name.split("/")[0] for name in changes.destroyed)
    gone = [f"{counted(number, 'file')} of {place}" for place, number in sorted(folders.items())]
    return ", ".join([*gone, *(f"lines of {name}" for name in changes.rewritten)]) or "none"


def _module_rows(before: ServingState, after: ServingState) -> list[str]:
    return [
        _row("live modules", before.live_counts.modules, after.live_counts.modules),
        _row("sequences that serve", before.sequences, after.sequences),
        _row("groups of the longest", before.live_counts.groups, after.live_counts.groups),
    ]


def _row(name: str, now: object, then: object) -> str:
    return f"{name:<26}{now!s:>10}{then!s:>10}"


def _requests_left(state: ServingState) -> str:
    if math.isfinite(state.requests_left):
        return f"{state.requests_left:.1f}"
    return "never" if state.solved else "no end"


def _accuracy(state: ServingState) -> str:
    return "none" if state.accuracy is None else f"{state.accuracy.accuracy:.1%}"


def _interval(state: ServingState) -> str:
    found = state.accuracy
    return "" if found is None else f"{100 * found.low:.1f}-{100 * found.high:.1f}"


# --- a client's own withdrawal


def share_json(share: RunShare) -> dict[str, Any]:
    """Return the records that a withdrawal would delete from one run, for programs."""
    return {"run": share.enrolment.run, "records": len(share.ids), "slices": share.counts()}


def shares_text(shares: list[RunShare], file: str) -> str:
    """Return the records that a withdrawal would delete, a line for each run, and the fate of the file."""
    lines = ["dry run: nothing was sent or changed"]
    for share in shares:
        parts = ", ".join(f"{count} of slice {index}" for index, count in share.counts().items())
        lines.append(f"run {share.enrolment.run}: would delete {counted(len(share.ids), 'record')} ({parts})")
    return "\n".join([*lines, f"file {file}"])


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a withdrawal in one run, for programs; the certificate is in its own file."""
    granted = outcome.granted.model_dump(exclude={"certificate"}) if outcome.granted else {}
    place = None if outcome.certificate is None else str(outcome.certificate)
    message = {"message": outcome.message} if outcome.message else {}
    return {
        "run": outcome.run,
        "state": outcome.state,
        **message,
        **granted,
        "certificate": place,
        "file": outcome.file or None,
    }


def outcome_text(outcome: Outcome) -> str:
    """Return the outcome of a withdrawal in one run, in words."""
    granted = outcome.granted
    if granted is None:
        return f"run {outcome.run}: {outcome.message}"
    end = outcome.message if outcome.certificate is None else f"certificate {outcome.certificate}"
    end += f"\nfile {outcome.file}" if outcome.file else ""
    return (
        f"run {outcome.run}: request no. {granted.position}: {counted(granted.records, 'record')} deleted, "
        f"groups hit: {_listed(granted.groups)}\n"
        f"{end}"
    )
