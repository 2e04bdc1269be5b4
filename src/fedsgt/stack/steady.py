"""Batches of one fixed shape, in which a record's outputs do not depend on the records beside it.

Matrix products and attention may round differently in batches of another size or padding. With as many rows
in every batch, and texts of one padded length together, each row is computed in one way, so that a record has
the same bits in any company: alone, among all, or after others were deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from fedsgt.stack.inputs import Item

ROWS = 32  # records in a batch; one that has fewer is filled up with repeats
STEP = 8  # tokens: texts are padded to multiples of it
Compute: TypeAlias = Callable[[Sequence[Item], int], NDArray[Any]]
"""Function from a batch's items, and the length that texts are padded to, to a row for each item."""


class Shape(NamedTuple):
    """Items of one shape may share a batch."""

    length: int
    """Padded length of a text; 0 for images."""
    full: bool
    """Whether there is no padding: without any in a batch, attention needs no mask and rounds otherwise."""


def shape_of(item: Item, longest: int) -> Shape:
    """Return the shape of an item; `longest` is the largest length of a text, or 0 for images."""
    if not longest:
        return Shape(0, full=True)
    own = length_of(item)
    padded = min(-(-own // STEP) * STEP, longest)
    return Shape(padded, own == padded)


def length_of(item: Item) -> int:
    """Return the number of tokens of a text, prepared or run through the lower layers."""
    return len(item["input_ids"] if "input_ids" in item else item["hidden"])


def in_steady_batches(items: Sequence[Item], longest: int, compute: Compute) -> list[NDArray[Any]]:
    """Return the row that `compute` gives for each item, in whatever company it is."""
    alike: dict[Shape, list[int]] = {}
    for index, item in enumerate(items):
        alike.setdefault(shape_of(item, longest), []).append(index)
    found: dict[int, NDArray[Any]] = {}
    for shape, places in alike.items():
        for start in range(0, len(places), ROWS):
            chosen = places[start : start + ROWS]
            filled = [*chosen, *chosen[:1] * (ROWS - len(chosen))]
            rows = compute([items[index] for index in filled], shape.length)
            # A copy, so that the whole batch can be freed.
            found.update((index, row.copy()) for index, row in zip(chosen, rows, strict=False))
    return [found[index] for index in range(len(items))]
