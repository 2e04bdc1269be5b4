"""The status of a run on one screen: the tree of its modules, its requests, and the forecast."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedsgt.cli.views.evaluation import accuracy_words
from fedsgt.plans import STRATEGY_NAMES
from fedsgt.plans.plan import Prefix
from fedsgt.reporting.advice import Urgency
from fedsgt.reporting.module_tree import TreeRow, tree_rows
from fedsgt.reporting.page import estimate, expected_percent, percent, shown_names
from fedsgt.reporting.status import RunStatus, State
from fedsgt.runs.health import problem_lines
from fedsgt.words import counted, counted_range, printable

ASSUMED = "a request hits one group, by the records left in it; one for a whole client hits more at once"
URGENCY_STYLES: dict[Urgency, str] = {"now": "bold red", "soon": "bold yellow", "none": "bold green"}
SEQUENCES, REQUESTS, AHEAD, FRAGILE = 20, 8, 10, 5  # most rows of each part
STYLES: dict[State, str] = {
    "live": "green",
    "new": "bold cyan",
    "cut off": "yellow",
    "dead": "strike dim red",
    "untrained": "dim",
    "missing": "bold red",
    "damaged": "bold red",
    "not destroyed": "bold red",
}
# Colours do not go into a file, and not every terminal can strike out.
MARKS: dict[State, str] = {
    "live": "",
    "new": "+",
    "cut off": "~",
    "dead": "x",
    "untrained": "?",
    "missing": "!",
    "damaged": "!",
    "not destroyed": "!",
}
MEANINGS: dict[State, str] = {
    "live": "live",
    "new": "+ live, trained again or added",
    "cut off": "~ not served, as a module before it is not live",
    "dead": "x dead",
    "untrained": "? not trained yet",
    "missing": "! missing",
    "damaged": "! damaged",
    "not destroyed": "! not destroyed",
}


class StatusView:
    """Draws a status with the lines that the output can show."""

    def __init__(self, console: Console) -> None:
        self.console = console
        # Not every terminal or file can encode the characters of lines.
        try:
            "─│├└┬…".encode(console.encoding)
            self.line, self.down, self.fork, self.turn, self.part, self.cut = "─│├└┬…"
        except UnicodeEncodeError:
            self.line, self.down, self.fork, self.turn, self.part, self.cut = "-|+`+~"

    def page(self, run: Path, found: RunStatus) -> RenderableType:
        """Return the whole screen: problems first, and the advice right below the headline."""
        return Group(
            *(Text(line, "bold red") for line in problem_lines(found.health.problems)),
            headline(run, found),
            Text(found.advice(), URGENCY_STYLES[found.urgency]),
            *(
                Text(f"PENDING: request no. {work.position} is in force; {work.words()}", "bold red")
                for work in found.pending
            ),
            *accuracy_lines(run, found),
            *self._tree(found),
            Text(),
            *_requests(found),
            Text(),
            *_ahead(found),
            _facts(found),
        )

    def _tree(self, found: RunStatus) -> list[Text]:
        drawn = tree_rows(found.sequences)
        if not drawn:
            return []
        lines = [Text(), Text("sequences: live modules of all, and their groups in order", "bold")]
        lines += [self._row(found, row) for row in drawn[:SEQUENCES]]
        lines.append(_legend(found, drawn))
        if len(drawn) > SEQUENCES:
            depths = sorted(map(len, found.prefixes))
            live = counted_range(depths[0], depths[-1], "live module")
            lines.append(
                Text(
                    f"  {counted(len(drawn) - SEQUENCES, 'more sequence')}; all {len(depths)} have {live}, "
                    f"half have {depths[len(depths) // 2]} or more"
                )
            )
        return lines

    def _row(self, found: RunStatus, row: TreeRow) -> Text:
        live, most = len(found.prefixes[row.sequence]), len(str(max(map(len, found.sequences))))
        line = Text(f"{row.sequence:>{len(str(len(found.sequences) - 1))}}  ", no_wrap=True)
        line.append(f"{live:>{most}}/{len(row.path):<{most}} ", "bold" if live else "dim")
        cell = 2 + len(str(found.groups - 1))  # a joint, a mark, and the longest number
        room = max(1, (self.console.width - len(line) - 1) // cell)
        for depth in range(min(len(row.path), room)):
            line.append(self._joint(row, depth), "dim")
            if depth < row.start:
                line.append(" " * (cell - 1))
            else:
                line.append_text(self._module(found, row.path[: depth + 1], cell - 1))
        return line.append(self.cut if len(row.path) > room else "", "dim")

    def _joint(self, row: TreeRow, depth: int) -> str:
        """Return the piece of line before a module: straight, a fork, or part of a branch from above."""
        if depth == 0:
            return ""
        if depth < row.start:
            return self.down if row.more[depth] else " "
        if depth == row.start:
            return self.fork if row.more[depth] else self.turn
        return self.part if row.more[depth] else self.line

    def _module(self, found: RunStatus, prefix: Prefix, width: int) -> Text:
        kind = found.state(prefix)
        name = f"{MARKS[kind]}{prefix[-1]}"
        filling = self.line if len(prefix) > 1 else " "
        return Text.assemble((filling * (width - len(name)), "dim"), (name, STYLES[kind]))


def _legend(found: RunStatus, drawn: list[TreeRow]) -> Text:
    # From `start` on: a module that several rows share is counted once.
    modules = [row.path[: depth + 1] for row in drawn for depth in range(row.start, len(row.path))]
    numbers = Counter(found.state(prefix) for prefix in modules)
    told = (f"{meaning}: {numbers[kind]}" for kind, meaning in MEANINGS.items() if numbers[kind])
    return Text("  " + ", ".join(told), "dim")


def headline(run: Path, found: RunStatus) -> Text:
    """Return the numbers of live modules and groups in one line."""
    level = found.live_counts
    if found.why_exhausted is not None:
        return Text(f"{run}: {found.why_exhausted}", "bold red")
    if found.heads is not None and not level.modules:
        right = "" if found.accuracy is None else f": {found.accuracy.accuracy:.1%}"
        return Text.assemble(
            (f"{run}: ", "bold"),
            ("no module is live", "bold yellow") if found.modules else "the plan has no modules",
            f"; the bare backbone answers with a head of {counted(found.heads.records, 'record')}{right}",
        )
    return Text.assemble(
        (f"{run}: ", "bold"),
        (f"{level.modules} of {counted(found.modules, 'module')} live", "bold green"),
        f", the longest sequence has {level.groups} of {counted(found.groups, 'group')}",
    )


def accuracy_lines(run: Path, found: RunStatus) -> list[Text]:
    """Return the accuracy of what is served, or how to get it, and a strategy that is clearly better."""
    if found.exhausted:
        return []
    served, better = found.accuracy, found.better_strategy
    if served is None or found.evaluation is None:
        return [Text(f"accuracy not known; fedsgt evaluate {run} measures it", "dim")]
    told = accuracy_words(served, found.strategy, found.evaluation.records)
    lines = [Text.assemble("accuracy ", (f"{served.accuracy:.1%}", "bold"), f" ({told})")]
    return [*lines, Text(f"{better.words()}.", URGENCY_STYLES["soon"])] if better else lines


def status_line(run: Path, found: RunStatus) -> str:
    """Return a change in one line, for `--watch` into a file."""
    ahead = found.forecast
    chance = "module alive" if found.solved else "alive"
    alive = "" if found.exhausted else f"; P({chance} after {_last(found)} more) {ahead.some_module[-1]:.1%}"
    served = counted(len(found.past.requests), "request")
    right = "" if found.accuracy is None else f"; accuracy {found.accuracy.accuracy:.1%}"
    bad = len(found.health.problems)
    problems = f"; {counted(bad, 'module')} with a problem" if bad else ""
    return f"position {found.position}: {headline(run, found).plain}, {served} served{alive}{right}{problems}"


def _last(found: RunStatus) -> int:
    return len(found.forecast.alive) - 1


def _requests(found: RunStatus) -> list[RenderableType]:
    served = found.past.requests
    if not served:
        return [Text("requests   none so far", "bold")]
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Short headings, so that a request stays in one line of 80 characters.
    for name in ("request", "time", "client", "deleted", "groups"):
        table.add_column(name, no_wrap=name == "time", overflow="fold")
    for name in ("died", "live"):
        table.add_column(name, justify="right")
    for request in served[-REQUESTS:]:
        after = request.after.modules
        table.add_row(
            str(request.position),
            request.time[:16].replace("T", " "),
            Text(printable(shown_names(request.clients))),
            request.deleted + ("" if request.complete else ", not destroyed yet"),
            ", ".join(map(str, request.groups)) or "none",
            str(request.modules_died),
            "?" if after is None else str(after),
        )
    before = len(served) - REQUESTS
    note = [Text(f"  and {before} before these", "dim")] if before > 0 else []
    return [table, *note]


def _ahead(found: RunStatus) -> list[RenderableType]:
    if not found.live_counts.modules:  # what is left, if anything, is not changed by further requests
        return []
    forecast, ahead = found.forecast, found.evaluation.expected if found.evaluation else []
    table = Table(box=None, pad_edge=False, header_style="bold")
    # With solved heads something answers in any case.
    chance = "P(a module alive)" if found.solved else "P(still alive)"
    for name in ("further requests", chance, "expected live groups"):
        table.add_column(name, justify="right")
    if ahead:
        name = "expected accuracy" if found.solved else "expected accuracy, if alive"
        table.add_column(name, justify="right")
    last = _last(found)
    step = math.ceil(last / AHEAD)  # at most so many rows, whatever --requests says
    for count in sorted({*range(step, last + 1, step), last}):
        expected = found.expected_accuracy(count)
        table.add_row(
            str(count),
            percent(forecast.some_module[count]),
            estimate(forecast.live_groups[count]),
            *([expected_percent(expected) if expected else ""] if ahead else []),
        )
    return [table, Text(f"  {ASSUMED}{_expected_of(found)}\n", "dim")]


def _expected_of(found: RunStatus) -> str:
    """Return whose accuracies are expected, if that is not the strategy in use."""
    expected = found.evaluation.expected_strategy if found.evaluation else None
    if expected in (None, found.strategy):
        return ""
    return f"; expected accuracies are those of {STRATEGY_NAMES[expected]}"


def _facts(found: RunStatus) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, fact in facts(found):
        table.add_row(name, fact)
    return table


def facts(found: RunStatus) -> list[tuple[str, str]]:
    """Return the solved heads, the expected exhaustion, fragile groups and the policy, each in words."""
    told = [] if found.heads is None else [("heads", found.heads.words())]
    if not found.exhausted:
        told.append(("exhaustion", _exhaustion(found)))
    if found.fragile:
        told.append(("fragile", _fragile(found)))
    policy = found.policy
    threshold = "" if policy.threshold is None else f" {policy.threshold:g}"
    state = {True: f"due: {policy.reason}", False: "not due", None: f"unknown: {policy.reason}"}[policy.due]
    return [*told, ("policy", f"{policy.retrain}{threshold}; {state}")]


def _exhaustion(found: RunStatus) -> str:
    """Return in words when nothing is left to answer, and when no module is left."""
    left = found.forecast.until_no_module
    what = "no module" if found.solved else "nothing"
    about = f"about {left:.1f} further requests until {what} is live, the last one counted"
    if found.solved:
        never = "never exhausted while a record is left"
        return f"{never}; {about}" if found.live_counts.modules and math.isfinite(left) else never
    if math.isfinite(left):
        return about
    return "never exhausted: some first group has no records to delete"


def _fragile(found: RunStatus) -> str:
    shown = [
        f"group {one.group} ({one.chance:.0%} a request) takes {counted(one.modules, 'module')} "
        f"and leaves {counted(one.live_groups, 'group')}"
        for one in found.fragile[:FRAGILE]
    ]
    return "\n".join(shown)
