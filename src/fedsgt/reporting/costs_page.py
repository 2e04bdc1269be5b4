"""The part of a report on costs: what the training took, and what it asks of a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedsgt.reporting.html import Unit, size, stroke, swatch, table, unit_of
from fedsgt.reporting.svg import seconds_over_records
from fedsgt.reporting.traffic_page import carried
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.config import Config
    from fedsgt.reporting.costs import Costs, ModuleTotals, PerClient
    from fedsgt.reporting.report import Report

LISTED = 20
SIDE_BY_SIDE = 'style="display: flex; flex-wrap: wrap; gap: 0 3rem"'


def costs_section(report: Report) -> str:
    found, config = report.costs, report.folder.config
    return (
        f"<h2>Costs</h2>{_plan(found, config)}{_times(found)}"
        f"<h3>Rounds and bytes of a client</h3>{_per_client(found, config)}{carried(report)}"
    )


def _plan(found: Costs, config: Config) -> str:
    training = config.training
    return (
        f"<p>The plan trains <b>{counted(found.modules, 'module')}</b> and costs <b>{found.passes:g}</b> "
        f"passes over the data, at {counted(training.rounds, 'round')} a module, in each of "
        f"{counted(training.epochs, 'local epoch')}: a module's training passes over its group and all "
        "before it.</p>"
    )


def _times(found: Costs) -> str:
    whole = found.whole
    if not whole.timed:
        return "<p>No times are on record: no module is trained, or its metrics are gone.</p>"
    unit = unit_of(whole.seconds)
    depths = _parts("depth", found.depths, unit, first=1)
    sequences = _parts("sequence", found.sequences, unit, first=0)
    return (
        f"<p>Training took <b>{unit.show(whole.seconds)}</b>{_each(found, unit)} of workers' time.</p>"
        f"<div {SIDE_BY_SIDE}><div><h3>By depth</h3>{depths}</div>"
        f"<div><h3>By sequence</h3>{sequences}</div></div>"
        '<p class="soft">Times are the seconds of the clients\' local updates, summed as if one worker had '
        "done them all; averaging, writing and waiting are not in them. A module that several sequences "
        "share counts for the first of them, and once in all.</p>"
        f"<h3>Time of each module</h3>{_linear(found)}"
    )


def _each(found: Costs, unit: Unit) -> str:
    whole = found.whole
    if found.a_sequence is not None:
        return f" (<b>{unit.show(found.a_sequence)}</b> a sequence)"
    return f", for the {whole.timed} of {whole.modules} modules that are there (times go with their modules),"


def _parts(what: str, parts: Sequence[ModuleTotals], unit: Unit, first: int) -> str:
    """A line for each; the number of modules tells how many of them have a time."""
    lines = [
        [
            str(number),
            _of(part),
            *([f"{part.records:,}", unit.number(part.seconds)] if part.timed else ["", ""]),
        ]
        for number, part in enumerate(parts[:LISTED], start=first)
    ]
    more = len(parts) - LISTED
    heads = [what, "modules", "records", unit.name]
    shown = table(heads, lines, numbers=range(4))
    return shown + (f'<p class="soft">{more} more are not listed.</p>' if more > 0 else "")


def _of(part: ModuleTotals) -> str:
    return str(part.modules) if part.timed == part.modules else f"{part.timed} of {part.modules}"


def _linear(found: Costs) -> str:
    line = found.line
    dot = swatch('<circle class="dot" cx="9" cy="7" r="3"/>')
    if line is None:
        text, key = "All modules have the same number of records, so there is no line through them.", ""
    else:
        text = (
            "By theory it grows in proportion to the records of the prefix. The straight line is "
            f"<b>{1000 * line.a_record:.3g} s</b> for 1,000 records and {line.start:.2g} s for a module; it "
            f"explains {line.explained:.1%} of the differences."
        )
        key = f"<li>{stroke('groups')}straight line</li>"
    drawing, drawn = seconds_over_records(
        [(float(one.records), one.seconds) for one in found.times.values()],
        None if line is None else (line.start, line.a_record),
    )
    some = "" if drawn == len(found.times) else f", {drawn} of {len(found.times)}"
    return (
        f'<p>{text}</p><ul class="key"><li>{dot}a module{some}: seconds over records trained, all rounds</li>'
        f'{key}</ul><div class="wide">{drawing}</div>'
    )


def _per_client(found: Costs, config: Config) -> str:
    planned = found.per_client
    lines = [
        ["planned", f"{planned.rounds:.2f}", _range(planned), _bytes(planned.down), _bytes(planned.up)],
        *_formulas(planned),
        *_measured(found),
    ]
    heads = ["mean of all clients", "rounds", "least to most", "to it", "from it"]
    module = "" if planned.module_bytes is None else f" A module has {size(planned.module_bytes)}."
    prefix = (
        " Prefixes travel as their projection, which is larger than the module: more is sent than planned."
        if config.peft.kind == "prefix"
        else ""
    )
    formula = (
        ""
        if planned.corrected_rounds is not None
        else " The paper's formula does not cover this plan or these clients."
    )
    return (
        f"{table(heads, lines, numbers=range(1, 5))}"
        '<p class="soft">Of one whole training, a round for each update of a module. To a client go what '
        "each round starts from and, once each, the frozen modules below; its update comes back."
        f"{module}{prefix}{formula}</p>"
    )


def _formulas(planned: PerClient) -> list[list[str]]:
    if planned.paper_rounds is None or planned.corrected_rounds is None:
        return []
    return [
        ["the paper's formula, slices independent", f"{planned.paper_rounds:.2f}", "", "", ""],
        ["the formula for groups of equal size", f"{planned.corrected_rounds:.2f}", "", "", ""],
    ]


def _measured(found: Costs) -> list[list[str]]:
    traffic = found.traffic
    if traffic is None or not traffic.clients:
        return []
    updates = [line.modules for line in traffic.clients.values()]
    return [
        [
            "measured, all trainings so far",
            f"{traffic.mean('modules'):.2f}",
            f"{min(updates)} to {max(updates)}",
            _bytes(traffic.mean("down")),
            _bytes(traffic.mean("up")),
        ]
    ]


def _range(planned: PerClient) -> str:
    return f"{planned.least_rounds} to {planned.most_rounds}"


def _bytes(count: float | None) -> str:
    return "" if count is None else size(count)
