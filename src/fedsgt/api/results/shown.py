"""Facts in words and as HTML tables for notebooks; all texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedsgt.serving.accuracy import Accuracy


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return an HTML table; numbers are aligned to the right."""
    head = "".join(f"<th>{escape(name)}</th>" for name in headers)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts(pairs: Iterable[tuple[str, object]], caption: str = "") -> str:
    """Return a table of names and values."""
    return table(("", ""), pairs, caption)


def _cell(value: object) -> str:
    side = ' style="text-align:right"' if isinstance(value, int | float) else ""
    return f"<td{side}>{escape(str(value))}</td>"


def accuracy_text(found: Accuracy) -> str:
    """Return "97.2 % (94.9 to 98.5)"."""
    return f"{100 * found.accuracy:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"


def share(value: float | None) -> str:
    """Return a share in percent, or that it is not known."""
    return "not known" if value is None else f"{value:.1%}"


def listed(groups: Sequence[int]) -> str:
    """Return numbers separated by commas, or "none"."""
    return ", ".join(map(str, groups)) or "none"
