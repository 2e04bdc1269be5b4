"""Which sequences answer, with which live prefix and which weight: the pure part of serving."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from fedsgt.errors import InputError
from fedsgt.plans.plan import Prefix

Choice = tuple[int, Prefix, float]
MERGED = "merged"
"""The strategy that averages the modules of the sequences that AllSeq takes into one model."""


def select(strategy: str, sequences: Iterable[Sequence[int]], deleted: Collection[int]) -> list[Choice]:
    """What `choose` takes of these sequences, each cut before its first deleted group."""
    return choose(strategy, [live_prefix(path, deleted) for path in sequences])


def choose(strategy: str, prefixes: Iterable[Prefix]) -> list[Choice]:
    """(index, live prefix, weight) of the sequences that serve, weights summing to 1; none when exhausted.

    `prefixes` has the live part of each sequence, which may be empty. `all` (AllSeq) takes every sequence
    with a live module, `min` (MinSeq) those whose live groups are not contained in another's, both weighted
    by the number of live modules; `long` (LongSeq) takes the longest. `merged` takes what AllSeq takes.
    """
    choosing = STRATEGIES.get("all" if strategy == MERGED else strategy)
    if choosing is None:
        raise InputError(f"strategy: {strategy!r} is unknown; one of {', '.join((*STRATEGIES, MERGED))}")
    chosen = choosing(_distinct(enumerate(prefixes)))
    total = sum(len(prefix) for _, prefix in chosen)
    return [(index, prefix, len(prefix) / total) for index, prefix in chosen]


def live_prefix(path: Sequence[int], deleted: Collection[int]) -> Prefix:
    """What stands before the first deleted group."""
    for depth, group in enumerate(path):
        if group in deleted:
            return tuple(path[:depth])
    return tuple(path)


Alive = list[tuple[int, Prefix]]


def _distinct(prefixes: Iterable[tuple[int, Prefix]]) -> Alive:
    """Equal live prefixes are one module: it counts once, under the lowest index."""
    seen: dict[Prefix, int] = {}
    for index, prefix in prefixes:
        if prefix:
            seen.setdefault(prefix, index)
    return [(index, prefix) for prefix, index in seen.items()]


def _uncontained(alive: Alive) -> Alive:
    held = [frozenset(prefix) for _, prefix in alive]
    return [
        alive[one]
        for one in range(len(alive))
        if not any(held[one] < other or (held[one] == other and at < one) for at, other in enumerate(held))
    ]


def _longest(alive: Alive) -> Alive:
    return [max(alive, key=lambda choice: len(choice[1]))] if alive else []


STRATEGIES: dict[str, Callable[[Alive], Alive]] = {
    "all": lambda alive: alive,
    "min": _uncontained,
    "long": _longest,
}
