"""A process that answers from a run until it is told to end, for tests of many processes on one store."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from fedsgt.serving.predictor import Predictor


def answer(path: Path, strategy: str, connection: Connection) -> None:
    """Send the ledger's position and the keys that each answer was made with."""
    predictor = Predictor(path, strategy)
    while (contents := connection.recv()) is not None:
        found = predictor.predict(contents)
        connection.send((found.position, [key for sequence in found.sequences for key in sequence.keys]))


def ask(connection: Connection, contents: Sequence[bytes]) -> tuple[int, set[str]]:
    connection.send(contents)
    assert connection.poll(120), "no answer"
    position, keys = connection.recv()
    return position, set(keys)
