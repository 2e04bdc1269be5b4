"""The text of a report: one HTML file that needs nothing else."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsgt.config import to_toml
from fedsgt.plans import Estimate
from fedsgt.unlearning.report_svg import accuracy_curves, tree, unlearning_curve

if TYPE_CHECKING:
    from fedsgt.unlearning.outlook import Outlook
    from fedsgt.unlearning.report import Checked, Report

STRATEGIES = {
    "all": "AllSeq, all live sequences",
    "min": "MinSeq, those not contained in others",
    "long": "LongSeq, the longest",
    "merged": "merged into one model",
}
CURVES, FRAGILE = 40, 5


def page(report: Report, place: Path) -> str:
    """The whole file, to be written in the folder `place`; all that comes from outside is escaped."""
    style = files("fedsgt").joinpath("assets/report.css").read_text(encoding="utf-8")
    name = escape(report.folder.path.resolve().name)
    sections = (
        _top(report),
        _tree(report.outlook),
        _curve(report),
        _accuracy(report),
        _certificates(report, place),
        _proofs(report),
        _configuration(report),
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="fedsgt-ledger" content="{report.outlook.position}">\n'
        f"<title>FedSGT run {name}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<h1>FedSGT run {name}</h1>\n" + "\n".join(sections) + "\n</body>\n</html>\n"
    )


def _top(report: Report) -> str:
    found, ahead = report.outlook, report.outlook.forecast
    tiles = [
        (f"{found.level.modules} of {found.modules}", "modules live"),
        (f"{found.level.groups} of {found.groups}", "groups behind the longest live sequence"),
        (str(len(found.past.requests)), "deletion requests served"),
        (_percent(ahead.alive[-1]), f"chance to serve after {len(ahead.alive) - 1} more"),
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


def _tree(found: Outlook) -> str:
    drawing, left_out = tree(found)
    meanings = {
        "live": "live",
        "new": "live, trained again or added",
        "dead": "dead: a deletion hit this group or one before it",
        "untrained": "not trained yet",
    }
    states = {found.state(order[:depth]) for order in found.sequences for depth in range(1, len(order) + 1)}
    key = "".join(f"<li>{_box(state)}{text}</li>" for state, text in meanings.items() if state in states)
    more = f'<p class="soft">{left_out} more sequences are not drawn.</p>' if left_out else ""
    return (
        "<h2>Modules</h2><p>A row is a sequence: its groups in the order of training, after the number of "
        "its live modules. A module depends on its group and on all before it; a module that several "
        f'sequences share is drawn once.</p><ul class="key">{key}</ul><div class="wide">{drawing}</div>{more}'
    )


def _curve(report: Report) -> str:
    found, ahead = report.outlook, report.outlook.forecast
    kinds = [("modules", "live modules"), ("groups", "groups behind the longest live sequence")]
    if not found.exhausted:
        kinds += [("groups ahead", "the same, expected"), ("alive ahead", "chance that something is live")]
    key = "".join(f"<li>{_stroke(kind)}{text}</li>" for kind, text in kinds)
    if any(step.trained and step.requests for step in found.past.steps):
        triangle = _swatch('<path class="trained" d="M4 13l5 -9l5 9z"/>')
        key += f"<li>{triangle}trained again</li>"
    return (
        "<h2>Unlearning curve</h2><p>In shares of the whole plan, over the number of requests: on the left "
        "what happened, on the right what to expect. Accuracies of the past are not here: they would be "
        "figures made from data that is deleted now, so the run keeps none.</p>"
        f'<ul class="key">{key}</ul><div class="wide">{unlearning_curve(found)}</div>'
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
    ahead = report.outlook.forecast
    heads = ["further requests", "chance to serve", "expected live groups"]
    if report.ahead:
        heads.append("expected accuracy, if anything is live")
    lines = []
    for count in range(1, len(ahead.alive)):
        line = [str(count), _percent(ahead.alive[count]), _number(ahead.live_groups[count])]
        if report.ahead:
            value = report.ahead[count - 1] if count <= len(report.ahead) else None
            line.append("" if value is None else _percent(value))
        lines.append(line)
    names = {"all": "AllSeq", "min": "MinSeq", "long": "LongSeq"}
    scored = (
        f" Accuracies are of {names[report.ahead_strategy]}, over simulated requests." if report.ahead else ""
    )
    return (
        f"<h3>Outlook</h3>{_table(heads, lines, numbers=range(4))}"
        '<p class="soft">A request is taken to hit one group, with a chance in proportion to the records '
        f"left in it; one for a whole client hits more at once.{scored}</p>"
    )


def _fragile(found: Outlook) -> str:
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
    return f"<h3>Fragile groups</h3>{_table(heads, lines, numbers=range(4))}"


def _accuracy(report: Report) -> str:
    found = report.evaluation
    if found is None or not found["strategies"]:
        run = escape(str(report.folder.path))
        text = f"Not measured since the last change; <code>fedsgt report {run}</code> measures it."
        return f"<h2>Accuracy</h2><p>{'No module is live.' if report.outlook.exhausted else text}</p>"
    lines = [
        [STRATEGIES.get(name, name), f"{cell['accuracy']:.1%}", f"{cell['low']:.1%} to {cell['high']:.1%}"]
        for name, cell in found["strategies"].items()
    ]
    curves = [[cell["accuracy"] for cell in curve] for curve in found["sequences"][:CURVES] if curve]
    agreement = found.get("agreement")
    note = f"<p>merged gives AllSeq's label to {agreement:.1%} of them.</p>" if agreement is not None else ""
    return (
        f"<h2>Accuracy</h2><p>Of what is live now, on {found['records']} test records.</p>"
        f"{_table(['sequences used', 'accuracy', '95 % interval'], lines, numbers=(1,))}{note}"
        "<h3>Each live sequence, cut after so many modules</h3>"
        f'<div class="wide">{accuracy_curves(curves)}</div>'
    )


def _certificates(report: Report, place: Path) -> str:
    chain = (
        f"<p>The ledger has {report.head.position} entries; its chain of hashes was checked from the first "
        f"to the last and holds. Head: <code>{report.head.hash}</code></p>"
    )
    heads = [
        "request at",
        "time (UTC)",
        "deleted",
        "groups hit",
        "modules died",
        "destroyed",
        "served after",
        "file",
        "signature",
    ]
    rows = "".join(f"<tr>{_certificate(one, place)}</tr>" for one in report.certificates)
    if not rows:
        return f"<h2>Requests and certificates</h2><p>No deletion was asked for so far.</p>{chain}"
    head = "".join(f"<th>{text}</th>" for text in heads)
    return (
        f'<h2>Requests and certificates</h2><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        '<p class="soft">Signatures were checked with the run\'s own <code>signing.pub</code>, and each '
        f"certificate against the ledger; whoever trusts neither takes the key from elsewhere.</p>{chain}"
    )


def _certificate(one: Checked, place: Path) -> str:
    request, found = one.request, one.certificate
    link = escape(os.path.relpath(one.path.resolve(), place), quote=True)
    file = f'<a href="{link}">{escape(one.path.name)}</a>' if one.path.exists() else ""
    state = (
        '<span class="good">holds</span>'
        if found
        else f'<span class="bad">{escape(one.problem or "")}</span>'
    )
    cells = [
        str(request.position),
        escape(request.time[:19].replace("T", " ")),
        escape(request.deleted),
        ", ".join(map(str, request.groups)) or "none",
        str(request.modules_died),
        f"{len(found.destroyed)} files" if found else "",
        f"{len(found.served.modules)} modules" if found else "",
        file,
        state,
    ]
    return "".join(f"<td>{cell}</td>" for cell in cells)


def _proofs(report: Report) -> str:
    title = "<h2>What is proved, and what is not</h2>"
    signed = [one.certificate.statement for one in report.certificates if one.certificate]
    choices = "<p>The grouping looked at data content, which weakens exactness.</p>"
    weak = choices if report.live.description.looks_at_data else ""
    own = "<p>This page itself is not signed; certificates are.</p>"
    if not signed:
        return f"{title}<p>There is no certificate that holds, so nothing is proved here.</p>{weak}{own}"
    proved, not_proved = (
        "".join(f"<li>{escape(text)}</li>" for text in texts)
        for texts in (signed[-1].proved, signed[-1].not_proved)
    )
    return (
        f"{title}<p>As the last certificate says:</p><h3>Proved</h3><ul>{proved}</ul>"
        f"<h3>Not proved</h3><ul>{not_proved}</ul>{weak}{own}"
    )


def _configuration(report: Report) -> str:
    lines = [[name, escape(str(value))] for name, value in _settings(report)]
    toml = escape(without_passwords(to_toml(report.folder.config)))
    return (
        f"<h2>Configuration</h2>{_table([], lines)}"
        f"<details><summary>All settings</summary><pre>{toml}</pre></details>"
    )


def _settings(report: Report) -> Iterable[tuple[str, Any]]:
    config, about = report.folder.config, report.live.description
    records = [sum(client.records) for client in about.clients]
    names = f": {', '.join(about.label_names)}" if about.label_names else ""
    kind = config.peft.kind + (f" of rank {config.peft.rank}" if config.peft.kind == "lora" else "")
    policy = report.outlook.policy
    threshold = "" if policy.threshold is None else f" {policy.threshold:g}"
    due = {True: f"due, {policy.reason}", False: "not due", None: f"unknown, {policy.reason}"}[policy.due]
    yield "data", f"{config.data.source}, {about.labels} labels{names}"
    yield "clients", f"{len(records)}, with {min(records)} to {max(records)} records when last trained"
    yield "groups", f"{about.groups} ({about.grouping})"
    yield "plan", f"{about.plan}, {len(about.sequences)} sequences, {len(about.modules)} modules"
    yield "backbone", f"{config.model.backbone}, {about.backbone[:16]}"
    yield "modules", f"{kind}, {config.training.epochs} epochs, {config.training.rounds} rounds a phase"
    yield "serving", config.serving.strategy
    yield "retraining", f"{policy.retrain}{threshold}: {due}"
    yield "run", about.id


def without_passwords(text: str) -> str:
    """Database and store URLs may hold one."""
    return re.sub(r"(://[^/\s:@]*):[^\s\"']*@", r"\1:***@", text)


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """Of cells that are HTML already."""
    right = set(numbers)

    def row(cells: Sequence[str], tag: str) -> str:
        marks = (' class="number"' if index in right else "" for index in range(len(cells)))
        inside = "".join(f"<{tag}{mark}>{cell}</{tag}>" for mark, cell in zip(marks, cells, strict=True))
        return f"<tr>{inside}</tr>"

    head = f"<thead>{row(heads, 'th')}</thead>" if heads else ""
    return f"<table>{head}<tbody>{''.join(row(line, 'td') for line in lines)}</tbody></table>"


def _swatch(inside: str) -> str:
    return f'<svg width="18" height="14" viewBox="0 0 18 14" aria-hidden="true">{inside}</svg>'


def _box(state: str) -> str:
    return _swatch(f'<g class="node {state}"><rect x="1" y="1" width="16" height="12" rx="3"/></g>')


def _stroke(kind: str) -> str:
    return _swatch(f'<path class="line {kind}" d="M0 7H18"/>')


def _percent(value: Estimate) -> str:
    return f"{float(value):.1%}" + ("" if value.exact else f" ± {value.stderr:.1%}")


def _number(value: Estimate) -> str:
    return f"{float(value):.2f}" + ("" if value.exact else f" ± {value.stderr:.2g}")
