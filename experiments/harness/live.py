"""Live data under streams of requests, by grouping and plan alone: nothing is trained for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from experiments.harness.requests import Stream, deaths
from fedsgt.plans.selection import live_prefix

Score = Callable[[frozenset[int]], float]


def longest(sequences: Iterable[Sequence[int]]) -> Score:
    """Return a score: the groups behind the longest live prefix (LongSeq), cut as when serving."""
    orders = [tuple(order) for order in sequences]
    return lambda dead: max(len(live_prefix(order, dead)) for order in orders)


def unhit(groups: int) -> Score:
    """Return a score: all groups that were not hit, as FedCIO's clusters are models of their own."""
    return lambda dead: groups - len(dead)


def simulated(score: Score, groups_of: Sequence[Sequence[int]], drawn: Sequence[Stream]) -> dict[str, Any]:
    """Return the means over the streams after each number of requests.

    `live` is the score, `alive` the share of streams that are still served, `rate` the mean number of the
    request that ends the service (a stream that is never ended counts its length and one).
    """
    known: dict[frozenset[int], float] = {}
    table = np.zeros((len(drawn), max(map(len, drawn)) + 1))
    for row, stream in zip(table, drawn, strict=True):
        for number, dead in enumerate(deaths(stream, groups_of)):
            if dead not in known:
                known[dead] = score(dead)
            if not known[dead]:
                break  # an exhausted run stays exhausted
            row[number] = known[dead]
    alive = (table > 0).mean(axis=0)
    return {
        "live": rounded(table.mean(axis=0)),
        "alive": rounded(alive),
        "rate": round(float(alive.sum()), 5),
    }


def rounded(values: Iterable[float]) -> list[float]:
    """Return the values rounded as results keep them."""
    return [round(float(value), 5) for value in values]
