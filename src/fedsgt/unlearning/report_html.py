"""Small pieces of a report's HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
