"""Names that all experiments share."""

from __future__ import annotations

PARTITIONS = {"iid": "IID", "dirichlet": "Dirichlet 0.3"}


def name(task: str, partition: str, *more: str) -> str:
    """Of a result: its task, how records lie with the clients, and what else tells it from others."""
    return "-".join([task.replace("/", "-"), partition, *more])
