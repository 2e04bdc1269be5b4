"""Names that all experiments share."""

from __future__ import annotations

PARTITIONS = {"iid": "IID", "dirichlet": "Dirichlet 0.3"}


def name(task: str, partition: str, *more: str) -> str:
    """Return the name of a result: its task, the partition of records, and whatever else tells it apart."""
    return "-".join([task.replace("/", "-"), partition, *more])
