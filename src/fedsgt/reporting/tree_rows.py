"""The sequences of a plan as rows of a drawing: each module once, branches below where they part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedsgt.plans.plan import Prefix


@dataclass(frozen=True)
class Row:
    """One path from a root to a leaf."""

    sequence: int
    """The first sequence that is this path."""
    path: Prefix
    start: int
    """So many of its modules stand in rows above."""
    more: tuple[bool, ...]
    """For each of its modules: whether another child of the same parent follows in a row below."""


def rows(sequences: Iterable[Sequence[int]]) -> list[Row]:
    """Top to bottom, in the order of the sequences as far as branches stay together."""
    number: dict[Prefix, int] = {}
    children: dict[Prefix, list[Prefix]] = {(): []}
    for index, order in enumerate(sequences):
        path = tuple(order)
        number.setdefault(path, index)
        for depth in range(1, len(path) + 1):
            if path[:depth] not in children:
                children[path[:depth]] = []
                children[path[: depth - 1]].append(path[:depth])
    found: list[Row] = []
    above: Prefix = ()
    for leaf in _leaves(children):
        more = tuple(children[leaf[:depth]][-1] != leaf[: depth + 1] for depth in range(len(leaf)))
        found.append(Row(number[leaf], leaf, _shared(above, leaf), more))
        above = leaf
    return found


def _leaves(children: dict[Prefix, list[Prefix]]) -> Iterator[Prefix]:
    waiting = children[()][::-1]
    while waiting:
        node = waiting.pop()
        if not children[node]:
            yield node
        waiting += children[node][::-1]


def _shared(one: Prefix, other: Prefix) -> int:
    """How many modules two paths have in common."""
    pairs = zip(one, other, strict=False)
    return next((depth for depth, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
