"""The parts of a report on what is on record: requests, certificates, what they prove, the settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fedsgt.config import to_toml
from fedsgt.reporting.html import table

if TYPE_CHECKING:
    from fedsgt.reporting.report import CheckedCertificate, Report


def certificates(report: Report, place: Path) -> str:
    chain = (
        f"<p>The ledger has {report.head.position} entries; its chain of hashes was checked from the first "
        f"to the last and holds. Head: <code>{report.head.hash}</code></p>"
    )
    heads = ["request at", "time (UTC)", "deleted", "certificate", "groups hit", "modules died"]
    heads += ["destroyed", "served after"]
    rows = "".join(f"<tr>{_certificate(one, place)}</tr>" for one in report.certificates)
    if not rows:
        return f"<h2>Requests and certificates</h2><p>No deletion was asked for so far.</p>{chain}"
    head = "".join(f"<th>{text}</th>" for text in heads)
    before = len(report.status.past.requests) - len(report.certificates)
    chain = (f'<p class="soft">{before} earlier requests are not listed.</p>' if before else "") + chain
    return (
        f'<h2>Requests and certificates</h2><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        '<p class="soft">Signatures were checked with the run\'s own <code>signing.pub</code>, and each '
        f"certificate against the ledger; whoever trusts neither takes the key from elsewhere.</p>{chain}"
    )


def _certificate(one: CheckedCertificate, place: Path) -> str:
    request, found = one.request, one.certificate
    link = quote(os.path.relpath(one.path.resolve(), place))
    file = f'<a href="{link}">{escape(one.path.name)}</a>' if one.path.exists() else ""
    state = (
        '<span class="good">signature holds</span>'
        if found
        else f'<span class="bad">{escape(one.problem or "")}</span>'
    )
    cells = [
        str(request.position),
        escape(request.time[:19].replace("T", " ")),
        escape(request.deleted),
        f"{file} {state}",
        ", ".join(map(str, request.groups)) or "none",
        str(request.modules_died),
        f"{len(found.destroyed)} files" if found else "",
        f"{len(found.served.modules)} modules" if found else "",
    ]
    return "".join(f"<td>{cell}</td>" for cell in cells)


def proofs(report: Report) -> str:
    title = "<h2>What is proved, and what is not</h2>"
    signed = [one.certificate.statement for one in report.certificates if one.certificate]
    choices = "<p>The grouping looked at data content, which weakens exactness.</p>"
    weak = choices if report.live.description.looks_at_data else ""
    own = "<p>This page itself is not signed; certificates are.</p>"
    if not signed:
        return f"{title}<p>There is no certificate that holds, so nothing is proved here.</p>{weak}{own}"
    proved, not_proved = (
        "".join(f"<li>{_sentence(text)}</li>" for text in texts)
        for texts in (signed[-1].proved, signed[-1].not_proved)
    )
    return (
        f"{title}<p>As the last certificate says:</p><h3>Proved</h3><ul>{proved}</ul>"
        f"<h3>Not proved</h3><ul>{not_proved}</ul>{weak}{own}"
    )


def _sentence(text: str) -> str:
    """Commands stand between backquotes."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def configuration(report: Report) -> str:
    lines = [[name, escape(str(value))] for name, value in _settings(report)]
    toml = escape(without_passwords(to_toml(report.folder.config)))
    return (
        f"<h2>Configuration</h2>{table([], lines)}"
        f"<details><summary>All settings</summary><pre>{toml}</pre></details>"
    )


def _settings(report: Report) -> Iterable[tuple[str, Any]]:
    config, about = report.folder.config, report.live.description
    records = [sum(client.records) for client in about.clients]
    names = f": {', '.join(about.label_names)}" if about.label_names else ""
    kind = config.peft.kind + (f" of rank {config.peft.rank}" if config.peft.kind == "lora" else "")
    policy = report.status.policy
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
