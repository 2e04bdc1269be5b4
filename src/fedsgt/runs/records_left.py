"""Records that deletions have left, and the chance of each group to be hit by the next request."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans.scoring.montecarlo import Estimate
from fedsgt.plans.scoring.whole_clients import clients_withstood
from fedsgt.runs.state import Live

Chances = NDArray[np.float64]
"""Chance of each group to be hit by a request."""


def records_left(live: Live, number: int) -> list[int]:
    """Return the number of records in each slice of a client after all deletions so far."""
    left = list(live.description.clients[number].records)
    for request in reversed(live.requests):
        if request.position <= live.description.as_of:
            break  # the description's numbers are without those already
        for part in request.body["parts"]:
            if part["number"] == number:
                for index, count in zip(part["slices"], part["counts"], strict=True):
                    left[index] = max(0, left[index] - count)
    return left


def request_chances(live: Live) -> Chances:
    """Return the chance of each group to be hit by the next request: its share of the records left.

    That describes requests for records or a slice; one for a whole client hits every group that it is in.
    """
    left = np.zeros(live.description.groups)
    for number, groups in enumerate(live.description.groups_of):
        for records, group in zip(records_left(live, number), groups, strict=True):
            left[group] += records
    total = left.sum()  # 0 if every record is deleted: then no group is likelier than another
    return left / total if total else np.full(len(left), 1 / len(left))


def whole_clients_withstood(live: Live) -> tuple[Estimate, int]:
    """Return how many more clients are expected to leave whole until nothing is live, and how many there are.

    The client whose leaving ends the service is counted; clients without a record left are not.
    """
    description = live.description
    counts = np.zeros((len(description.clients), description.groups), dtype=np.int64)
    for number, groups in enumerate(description.groups_of):
        for records, group in zip(records_left(live, number), groups, strict=True):
            # A slice without records was never learnt from, so that nothing dies with it.
            counts[number, group] += records > 0
    counts = counts[counts.any(axis=1)]
    orders = zip(description.sequences, live.depths, strict=True)
    roots = sorted({order[0] for order, depth in orders if depth})
    return clients_withstood(roots, counts), len(counts)
