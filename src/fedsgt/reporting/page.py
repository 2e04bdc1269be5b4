"""The text of a report: one HTML file that needs nothing else."""

from __future__ import annotations

import math
import shlex
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from fedsgt.reporting.comparison_page import comparison_section
from fedsgt.reporting.costs_page import costs_section
from fedsgt.reporting.html import box, number, percent, stroke, swatch, table
from fedsgt.reporting.records_page import certificates, configuration, proofs
from fedsgt.reporting.svg import accuracy_curves, tree, unlearning_curve

if TYPE_CHECKING:
    from fedsgt.reporting.report import Report
    from fedsgt.reporting.status import RunStatus

STRATEGIES = {
    "all": "AllSeq, all live sequences",
    "min": "MinSeq, those not contained in others",
    "long": "LongSeq, the longest",
    "merged": "merged into one model",
}
CURVES, FRAGILE = 40, 5
UNKNOWN = "Of the time before the last training, the ledger knows only the number of modules."


def page(report: Report, place: Path) -> str:
    """The whole file, to be written in the folder `place`; all that comes from outside is escaped."""
    style = files("fedsgt").joinpath("assets/report.css").read_text(encoding="utf-8")
    name = escape(report.folder.path.resolve().name)
    sections = (
        _top(report),
        _tree(report.status),
        _curve(report),
        _accuracy(report),
        comparison_section(report),
        costs_section(report),
        certificates(report, place),
        proofs(report),
        configuration(report),
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="fedsgt-ledger" content="{report.status.position}">\n'
        f"<title>FedSGT run {name}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<h1>FedSGT run {name}</h1>\n" + "\n".join(sections) + "\n</body>\n</html>\n"
    )


def _top(report: Report) -> str:
    found, ahead = report.status, report.status.forecast
    tiles = [
        (f"{found.live_counts.modules} of {found.modules}", "modules live"),
        (f"{found.live_counts.groups} of {found.groups}", "groups behind the longest live sequence"),
        (str(len(found.past.requests)), "deletion requests served"),
        (percent(ahead.alive[-1]), f"chance to serve after {len(ahead.alive) - 1} more"),
    ]
    measured = (report.evaluation or {}).get("strategies", {}).get(report.folder.config.serving.strategy)
    if measured:
        tiles.append((f"{measured['accuracy']:.1%}", "accuracy of what is served"))
    shown = "".join(f"<div><b>{value}</b><span>{what}</span></div>" for value, what in tiles)
    alarm = ""
    if found.exhausted:
        text = "Exhausted: no module is live." if found.begun else "No module is trained yet."
        alarm = f'<p class="alarm">{text}</p>'
    return (
        f'<p class="soft">As of position {found.position} of the ledger, {report.made}. '
        "The next deletion request makes this page out of date and destroys it in the run's folder.</p>"
        f'{alarm}<div class="tiles">{shown}</div><p><b>{escape(found.advice())}</b></p>'
    )


def _tree(found: RunStatus) -> str:
    drawing, left_out = tree(found)
    meanings = {
        "live": "live",
        "new": "live, trained again or added",
        "dead": "dead: a deletion hit this group or one before it",
        "untrained": "not trained yet",
    }
    states = {found.state(order[:depth]) for order in found.sequences for depth in range(1, len(order) + 1)}
    key = "".join(f"<li>{box(state)}{text}</li>" for state, text in meanings.items() if state in states)
    more = f'<p class="soft">{left_out} more sequences are not drawn.</p>' if left_out else ""
    return (
        "<h2>Modules</h2><p>A row is a sequence: its groups in the order of training, after the number of "
        "its live modules. A module depends on its group and on all before it; a module that several "
        f'sequences share is drawn once.</p><ul class="key">{key}</ul><div class="wide">{drawing}</div>{more}'
    )


def _curve(report: Report) -> str:
    found, ahead = report.status, report.status.forecast
    kinds = [("modules", "live modules"), ("groups", "groups behind the longest live sequence")]
    if not found.exhausted:
        kinds += [("groups ahead", "the same, expected"), ("alive ahead", "chance that something is live")]
    key = "".join(f"<li>{stroke(kind)}{text}</li>" for kind, text in kinds)
    if any(step.trained and step.requests for step in found.past.steps):
        triangle = swatch('<path class="trained" d="M4 13l5 -9l5 9z"/>')
        key += f"<li>{triangle}trained again</li>"
    return (
        "<h2>Unlearning curve</h2><p>In shares of the whole plan, over the number of requests: on the left "
        "what happened, on the right what to expect. Accuracies of the past are not here: they would be "
        "figures made from data that is deleted now, so the run keeps none.</p>"
        f'<ul class="key">{key}</ul><div class="wide">{unlearning_curve(found)}</div>'
        + (
            f'<p class="soft">{UNKNOWN}</p>'
            if any(step.live_counts.groups is None for step in found.past.steps)
            else ""
        )
        + ("" if found.exhausted else _forecast(report))
        + _fragile(found)
        + (
            f"<p>About <b>{ahead.requests_left:.1f}</b> further requests until nothing is live, the last one "
            "counted.</p>"
            if math.isfinite(ahead.requests_left) and not found.exhausted
            else ""
        )
    )


def _forecast(report: Report) -> str:
    ahead = report.status.forecast
    heads = ["further requests", "chance to serve", "expected live groups"]
    if report.ahead:
        heads.append("expected accuracy, if anything is live")
    lines = []
    for count in range(1, len(ahead.alive)):
        line = [str(count), percent(ahead.alive[count]), number(ahead.live_groups[count])]
        if report.ahead:
            value = report.ahead[count - 1] if count <= len(report.ahead) else None
            line.append("" if value is None else percent(value))
        lines.append(line)
    names = {"all": "AllSeq", "min": "MinSeq", "long": "LongSeq"}
    scored = (
        f" Accuracies are of {names[report.ahead_strategy]}, over simulated requests." if report.ahead else ""
    )
    return (
        f"<h3>RunStatus</h3>{table(heads, lines, numbers=range(4))}"
        '<p class="soft">A request is taken to hit one group, with a chance in proportion to the records '
        f"left in it; one for a whole client hits more at once.{scored}</p>"
    )


def _fragile(found: RunStatus) -> str:
    if not found.fragile:
        return ""
    lines = [
        [str(one.group), f"{one.chance:.1%}", str(one.modules), str(one.live_groups)]
        for one in found.fragile[:FRAGILE]
    ]
    heads = [
        "group",
        "chance to be hit by a request",
        "live modules that would die",
        "groups left in the longest",
    ]
    return f"<h3>Fragile groups</h3>{table(heads, lines, numbers=range(4))}"


def _accuracy(report: Report) -> str:
    found = report.evaluation
    if found is None or not found["strategies"]:
        run = escape(shlex.quote(str(report.folder.path)))
        text = f"Not measured since the last change; <code>fedsgt report {run}</code> measures it."
        return f"<h2>Accuracy</h2><p>{'No module is live.' if report.status.exhausted else text}</p>"
    lines = [
        [STRATEGIES.get(name, name), f"{cell['accuracy']:.1%}", f"{cell['low']:.1%} to {cell['high']:.1%}"]
        for name, cell in found["strategies"].items()
    ]
    curves = [[cell["accuracy"] for cell in curve] for curve in found["sequences"][:CURVES] if curve]
    agreement = found.get("agreement")
    note = f"<p>merged gives AllSeq's label to {agreement:.1%} of them.</p>" if agreement is not None else ""
    return (
        f"<h2>Accuracy</h2><p>Of what is live now, on {found['records']} test records.</p>"
        f"{table(['sequences used', 'accuracy', '95 % interval'], lines, numbers=(1,))}{note}"
        "<h3>Each live sequence, cut after so many modules</h3>"
        f'<div class="wide">{accuracy_curves(curves)}</div>'
    )
