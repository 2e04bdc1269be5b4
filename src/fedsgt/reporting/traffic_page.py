"""The part of a report on what went over the wire, client by client."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from fedsgt.reporting.html import box, swatch, table

if TYPE_CHECKING:
    from fedsgt.engine.traffic import Traffic
    from fedsgt.reporting.report import Report

LISTED = 50
WIDTH, HEIGHT = 220, 20


def carried(report: Report) -> str:
    """Nothing for a run that no Flower has carried: there was no communication."""
    traffic, expected = report.costs.traffic, report.costs.per_client.corrected_rounds
    if traffic is None or not traffic.clients:
        return ""
    alone = report.costs.modules * report.folder.config.training.rounds
    return (
        f"<h3>What Flower carried</h3>{_summary(traffic, alone)}{_key(expected)}"
        f'<div class="wide">{_table(traffic, expected)}</div>{_left_out(traffic)}'
        '<p class="soft">Bytes are those of tensors and texts, before encryption. All that the run has sent '
        "counts, repeated rounds and later trainings too; the expectation is that of one whole training.</p>"
    )


def _summary(traffic: Traffic, alone: int) -> str:
    return (
        f"<p><b>{traffic.rounds}</b> rounds in all, where one module at a time takes <b>{alone}</b> for one "
        "whole training: all modules that can be trained at a time go to a client in one message.</p>"
        f"<p>A client got <b>{traffic.mean('messages'):.1f}</b> messages on average, which asked it for "
        f"<b>{traffic.mean('modules'):.1f}</b> updates of modules: the rounds that it would have joined if "
        "each module had travelled alone.</p>"
    )


def _key(expected: float | None) -> str:
    kinds = [(box("new"), "messages"), (box("live"), "updates of modules")]
    kinds += [(swatch(_mark(9)), "expected for groups of equal size")] if expected is not None else []
    return '<ul class="key">' + "".join(f"<li>{sign}{text}</li>" for sign, text in kinds) + "</ul>"


def _table(traffic: Traffic, expected: float | None) -> str:
    most = max(expected or 0.0, *(line.modules for line in traffic.clients.values()), 1)
    names = sorted(traffic.clients, key=_by_number)[:LISTED]
    lines = [
        _row(escape(name), [line.messages, line.modules, line.down, line.up], most, expected)
        for name, line in ((name, traffic.clients[name]) for name in names)
    ]
    means = [traffic.mean(what) for what in ("messages", "modules", "down", "up")]
    lines.append(_row("<b>mean</b>", means, most, expected))
    heads = ["client", "messages", "updates", "MB to it", "MB from it", ""]
    return table(heads, lines, numbers=range(1, 5))


def _row(name: str, values: Sequence[float], most: float, expected: float | None) -> list[str]:
    messages, updates, down, up = values
    shown = [f"{value:.1f}" if isinstance(value, float) else str(value) for value in (messages, updates)]
    sizes = [f"{size / 1e6:.2f}" for size in (down, up)]
    return [name, *shown, *sizes, _bars(messages, updates, most, expected)]


def _bars(messages: float, updates: float, most: float, expected: float | None) -> str:
    """Messages in front of updates; the table has the same in numbers."""
    scale = (WIDTH - 4) / most
    bars = _bar("live", updates * scale, 12) + _bar("new", messages * scale, 6)
    mark = _mark(1 + expected * scale) if expected is not None else ""
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg {size} aria-hidden="true">{bars}{mark}</svg>'


def _bar(look: str, length: float, height: int) -> str:
    place = f'x="1" y="{(HEIGHT - height) // 2}" width="{max(1.0, length):.1f}" height="{height}"'
    return f'<g class="{look}"><rect {place} rx="2"/></g>'


def _mark(x: float) -> str:
    return f'<path class="now" d="M{x:.1f} 0V{HEIGHT}"/>'


def _left_out(traffic: Traffic) -> str:
    more = len(traffic.clients) - LISTED
    return f'<p class="soft">{more} more clients are not listed.</p>' if more > 0 else ""


def _by_number(name: str) -> tuple[int, str]:
    """client-2 before client-10."""
    return len(name), name
