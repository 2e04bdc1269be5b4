"""Choose the sequences that serve, each with its live prefix and weight (definitions 6 and 10)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from fedsgt.errors import InputError
from fedsgt.plans.plan import Prefix

# Index of a sequence, its live prefix and its weight.
Choice = tuple[int, Prefix, float]
# Sequences with a live module: index and live prefix.
Alive = list[tuple[int, Prefix]]
MERGED = "merged"
"""The strategy that averages the modules of the sequences that AllSeq takes into one model."""
STRATEGY_NAMES = {"all": "AllSeq", "min": "MinSeq", "long": "LongSeq", MERGED: "merged"}
"""Names of the strategies in texts for people."""
FLOOR = -1
"""Index of the bare backbone among the choices; its prefix is empty, so no deletion hits it."""
FLOOR_WEIGHT = 0.5  # against the square of a chain's depth


def select(strategy: str, sequences: Iterable[Sequence[int]], deleted: Collection[int]) -> list[Choice]:
    """Cut each sequence before its first deleted group and choose among what is left."""
    return choose(strategy, [live_prefix(path, deleted) for path in sequences])


def choose(strategy: str, prefixes: Iterable[Prefix]) -> list[Choice]:
    """Return index, live prefix and weight of the sequences that serve; weights sum to 1.

    `prefixes` has the live part of each sequence, which may be empty; if all are, so is the answer. `all`
    (AllSeq) takes every sequence with a live module, `min` (MinSeq) those whose live groups are not contained
    in another's, both weighted by the number of live modules; `long` (LongSeq) takes the longest. `merged`
    takes the same sequences as `all`.
    """
    choosing = STRATEGIES.get("all" if strategy == MERGED else strategy)
    if choosing is None:
        raise InputError(f"strategy: {strategy!r} is unknown; one of {', '.join((*STRATEGIES, MERGED))}")
    chosen = choosing(_distinct(enumerate(prefixes)))
    # A live prefix of d groups has d live modules, so lengths are the weights.
    total = sum(len(prefix) for _, prefix in chosen)
    return [(index, prefix, len(prefix) / total) for index, prefix in chosen]


def choose_solved(strategy: str, prefixes: Iterable[Prefix]) -> list[Choice]:
    """Return the same sequences with the weights of solved heads, and the bare backbone, which never dies.

    A chain of depth d is weighted d squared and the bare backbone 1/2; weights sum to 1. `merged` has one
    head for all its sequences, trained with them, so it keeps its weights; the backbone answers after it.
    """
    chosen = choose(strategy, prefixes)
    if strategy == MERGED and chosen:
        return chosen
    total = sum(len(prefix) ** 2 for _, prefix, _ in chosen) + FLOOR_WEIGHT
    floor: Choice = (FLOOR, (), FLOOR_WEIGHT / total)
    return [*((index, prefix, len(prefix) ** 2 / total) for index, prefix, _ in chosen), floor]


def live_prefix(sequence: Sequence[int], deleted: Collection[int]) -> Prefix:
    """Return the part of the sequence before its first deleted group."""
    for depth, group in enumerate(sequence):
        if group in deleted:
            return tuple(sequence[:depth])
    return tuple(sequence)


def _distinct(prefixes: Iterable[tuple[int, Prefix]]) -> Alive:
    """Keep each live prefix once, under its lowest index: equal prefixes are one module."""
    seen: dict[Prefix, int] = {}
    for index, prefix in prefixes:
        if prefix:
            seen.setdefault(prefix, index)
    return [(index, prefix) for prefix, index in seen.items()]


def _uncontained(alive: Alive) -> Alive:
    """Keep the sequences whose live groups are within no other's; of equal sets, the lowest index."""
    # Order does not matter here: two sequences may have seen the same groups in another order.
    held = [frozenset(prefix) for _, prefix in alive]
    return [
        alive[one]
        for one in range(len(alive))
        if not any(held[one] < other or (held[one] == other and at < one) for at, other in enumerate(held))
    ]


def _longest(alive: Alive) -> Alive:
    """Keep the longest; `max` takes the first, and so the lowest index, on a tie."""
    return [max(alive, key=lambda choice: len(choice[1]))] if alive else []


STRATEGIES: dict[str, Callable[[Alive], Alive]] = {
    "all": lambda alive: alive,
    "min": _uncontained,
    "long": _longest,
}
