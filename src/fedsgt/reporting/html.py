"""Small pieces of a report's HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedsgt.plans import Estimate


def table(heads: Sequence[str], lines: Sequence[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """Of cells that are HTML already."""
    right = set(numbers)

    def row(cells: Sequence[str], tag: str) -> str:
        marks = (' class="number"' if index in right else "" for index in range(len(cells)))
        inside = "".join(f"<{tag}{mark}>{cell}</{tag}>" for mark, cell in zip(marks, cells, strict=True))
        return f"<tr>{inside}</tr>"

    head = f"<thead>{row(heads, 'th')}</thead>" if heads else ""
    return f"<table>{head}<tbody>{''.join(row(line, 'td') for line in lines)}</tbody></table>"


def swatch(inside: str) -> str:
    return f'<svg width="18" height="14" viewBox="0 0 18 14" aria-hidden="true">{inside}</svg>'


def box(state: str) -> str:
    return swatch(f'<g class="node {state}"><rect x="1" y="1" width="16" height="12" rx="3"/></g>')


def stroke(kind: str) -> str:
    return swatch(f'<path class="line {kind}" d="M0 7H18"/>')


def percent(value: Estimate) -> str:
    return f"{float(value):.1%}" + ("" if value.exact else f" ± {value.stderr:.1%}")


def number(value: Estimate) -> str:
    return f"{float(value):.2f}" + ("" if value.exact else f" ± {value.stderr:.2g}")


def size(count: float) -> str:
    """Bytes as a person reads them."""
    for name, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= step:
            return f"{count / step:,.2f} {name}"
    return f"{count:.0f} bytes"


@dataclass(frozen=True)
class Unit:
    """Of times that stand together."""

    name: str
    seconds: float

    def number(self, seconds: float) -> str:
        return f"{seconds / self.seconds:,.2f}"

    def show(self, seconds: float) -> str:
        return f"{self.number(seconds)} {self.name}"


def unit_of(largest: float) -> Unit:
    """The one in which a person reads this time."""
    units = (Unit("hours", 3600), Unit("minutes", 60), Unit("seconds", 1))
    return next(unit for unit in units if largest >= 5 * unit.seconds or unit.seconds == 1)
