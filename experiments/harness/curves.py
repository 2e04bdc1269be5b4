"""Accuracy and availability against the number of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.harness.bench import Prefix, Trained
from experiments.harness.requests import Stream, deaths

DIGITS = 10  # labels of the one task that does not say how many it has


def chance(result: Mapping[str, Any]) -> float:
    """Return the chance that a guess among the labels of this result's task is right."""
    return 1 / (result["settings"]["data"]["labels"] or DIGITS)


def unlearning_curve(
    run: Trained,
    requests: Sequence[Stream],
    strategy: str = "all",
    sequences: Sequence[Prefix] | None = None,
) -> dict[str, Any]:
    """Return the means over the streams after each number of requests.

    `accuracy` is of the streams that are still served (none when no stream is), `alive` is their share,
    `spread` the standard deviation of their accuracies, `survived` the requests that each stream withstood.
    """
    run.predict_all()
    known: dict[frozenset[int], float | None] = {}
    table = [
        [_score(run, dead, strategy, sequences, known) for dead in deaths(stream, run.groups_of)]
        for stream in requests
    ]
    accuracy, alive, spread = [], [], []
    for column in zip(*table, strict=True):
        served = [value for value in column if value is not None]
        accuracy.append(float(np.mean(served)) if served else None)
        spread.append(float(np.std(served)) if served else None)
        alive.append(len(served) / len(column))
    survived = [sum(value is not None for value in row) - 1 for row in table]
    return {"accuracy": accuracy, "alive": alive, "spread": spread, "survived": survived}


def _score(
    run: Trained,
    dead: frozenset[int],
    strategy: str,
    sequences: Sequence[Prefix] | None,
    known: dict[frozenset[int], float | None],
) -> float | None:
    if dead not in known:
        known[dead] = run.accuracy(dead, strategy, sequences)
    return known[dead]
