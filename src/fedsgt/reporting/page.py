"""Render a report as one HTML file that needs nothing else, from the templates beside this file.

Everything in a template is escaped, since names of clients, runs and labels come from outside. Only the
drawings, which are made here, are marked as safe there.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fedsgt.config import to_toml
from fedsgt.plans import STRATEGY_NAMES, Estimate
from fedsgt.reporting.charts import (
    draw_accuracy_curves,
    draw_expected_accuracy,
    draw_seconds_over_records,
    draw_timeline,
    draw_unlearning_curve,
)
from fedsgt.reporting.comparison import AHEAD, peft_in_words
from fedsgt.reporting.module_tree import draw_tree
from fedsgt.runs.health import problem_lines
from fedsgt.words import counted, counted_passes, counted_range, shown_bytes

if TYPE_CHECKING:
    from jinja2 import Environment

    from fedsgt.engine.flower.traffic import ClientTraffic, Traffic
    from fedsgt.reporting.report import Report
    from fedsgt.reporting.status import RunStatus
    from fedsgt.serving.accuracy import ExpectedAccuracy

SEQUENCES_DRAWN = 40  # more lines could not be told apart
CLIENTS_LISTED = 50  # a federation may have thousands
NAMES_SHOWN = 3  # names in one cell of a table


def render_page(report: Report, place: Path) -> str:
    """Return the text of the whole file, which is to be written into the folder `place`."""
    tree, tree_left_out = draw_tree(report.status)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            status=report.status,
            forecast=report.status.forecast,
            costs=report.costs,
            config=report.folder.config,
            description=report.live.description,
            tree=tree,
            tree_left_out=tree_left_out,
            tree_states=_states(report.status),
            problems=problem_lines(report.status.health.problems),
            unlearning_curve=draw_unlearning_curve(report.status),
            timeline=draw_timeline(report.status, report.time),
            expected_accuracy=_expected_accuracy(report),
            accuracy_curves=_accuracy_curves(report),
            seconds=_seconds(report),
            traffic_lines=_traffic_lines(report.costs.traffic),
            certificate_link=_linked_from(place),
            settings=without_passwords(to_toml(report.folder.config)),
        )
    )


@cache
def _environment() -> Environment:
    # Imported here, since commands that write no page start without jinja2.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("fedsgt.reporting"),
        autoescape=True,
        undefined=StrictUndefined,  # a name that is misspelt in a template is an error, not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "counted": counted,
        "counted_passes": counted_passes,
        "percent": percent,
        "estimate": estimate,
        "expected_percent": expected_percent,
        "names": shown_names,
        "quoted": shlex.quote,
        "shown_bytes": shown_bytes,
    }
    environment.globals |= {
        "AHEAD": AHEAD,
        "STRATEGY_NAMES": STRATEGY_NAMES,
        "counted_range": counted_range,
        "infinity": math.inf,
        "peft_in_words": peft_in_words,
        "time_unit": time_unit,
    }
    return environment


def _states(status: RunStatus) -> set[str]:
    """Return the states that the tree shows, which its key explains."""
    return {status.state(order[:depth]) for order in status.sequences for depth in range(1, len(order) + 1)}


def _accuracy_curves(report: Report) -> str | None:
    """Draw the live sequences; None if they were not evaluated, or no module is live."""
    found = report.status.evaluation
    if found is None or not found.strategies:
        return None
    sequences = found.sequences[:SEQUENCES_DRAWN]
    curves = [[cell.accuracy for cell in curve] for curve in sequences if curve]
    floor = None if found.floor is None else found.floor.accuracy
    return draw_accuracy_curves(curves, floor) if curves else None


def _expected_accuracy(report: Report) -> str | None:
    """Draw the accuracy to expect; None if it is not known."""
    found = report.status.evaluation
    if found is None or not found.expected:
        return None
    return draw_expected_accuracy(found, report.live.description.labels)


@dataclass(frozen=True)
class SecondsChart:
    """Chart of the modules' training times."""

    svg: str
    dots: int
    """Number of modules that are drawn."""


def _seconds(report: Report) -> SecondsChart | None:
    """Draw the time of each module; None if no time is on record."""
    times, line = report.costs.times, report.costs.line
    if not times:
        return None
    points = [(float(one.records), one.seconds) for one in times.values()]
    fit = None if line is None else (line.start, line.a_record)
    return SecondsChart(*draw_seconds_over_records(points, fit))


def _traffic_lines(traffic: Traffic | None) -> list[tuple[str, ClientTraffic]]:
    """Return the first clients by name, client-2 before client-10; empty if nothing went over a network."""
    if traffic is None:
        return []
    # Shorter names come first, which puts numbers at the end of equal names in their order.
    return sorted(traffic.clients.items(), key=lambda item: (len(item[0]), item[0]))[:CLIENTS_LISTED]


def _linked_from(place: Path) -> Callable[[Path], str]:
    """Return a function that gives a file's address, relative to the page, so that both can be moved."""
    return lambda path: quote(os.path.relpath(path.resolve(), place))


def without_passwords(text: str) -> str:
    """Blank the passwords that URLs of databases and stores may hold."""
    # Up to the last @, since a password may hold one too.
    return re.sub(r"(://[^/\s:@]*):[^\s\"']*@", r"\1:***@", text)


# --- numbers in the words of the page


def percent(value: float) -> str:
    """Show a share; a simulated one with its standard error."""
    error = f" ± {value.stderr:.1%}" if isinstance(value, Estimate) and not value.exact else ""
    return f"{float(value):.1%}{error}"


def expected_percent(found: ExpectedAccuracy) -> str:
    """Show an expected accuracy; a simulated one with its standard error."""
    return "" if found.accuracy is None else percent(Estimate(found.accuracy, found.stderr))


def shown_names(names: Sequence[str]) -> str:
    """Show the first names of a list, and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def estimate(value: Estimate) -> str:
    """Show a number; a simulated one with its standard error."""
    return f"{float(value):.2f}" + ("" if value.exact else f" ± {value.stderr:.2g}")


@dataclass(frozen=True)
class TimeUnit:
    """Unit of times that stand together in a table."""

    name: str
    seconds: float

    def number(self, seconds: float) -> str:
        """Return the time as a number of units."""
        return f"{seconds / self.seconds:,.2f}"

    def show(self, seconds: float) -> str:
        """Return the time with its unit."""
        return f"{self.number(seconds)} {self.name}"


def time_unit(largest: float) -> TimeUnit:
    """Choose the unit in which a person reads the largest of some times."""
    # From five units on: 90 minutes are read more easily than 1.5 hours.
    units = (TimeUnit("hours", 3600), TimeUnit("minutes", 60), TimeUnit("seconds", 1))
    return next(unit for unit in units if largest >= 5 * unit.seconds or unit.seconds == 1)
