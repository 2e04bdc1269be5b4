"""Messages and bytes that a run's trainings exchanged, and the number that the paper expects."""

from __future__ import annotations

import json
from dataclasses import asdict

from fedsgt.engine.flower.traffic import Traffic
from fedsgt.errors import InputError
from fedsgt.runs.artefacts import TRAFFIC
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder
from fedsgt.store import Folder
from fedsgt.theory import client_rounds_balanced
from fedsgt.window import Window


def read_traffic(folder: RunFolder) -> Traffic | None:
    """Return the traffic of all trainings; None if none went over a network, not even a simulated one."""
    try:
        return Traffic.from_json(json.loads((folder.path / TRAFFIC).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder.path / TRAFFIC}: cannot be read ({error}); it may be removed") from None


def add_traffic(folder: RunFolder, more: Traffic) -> None:
    """Add the traffic of one training to the run's total."""
    if more.rounds:
        total = (read_traffic(folder) or Traffic()).plus(more)
        Folder(folder.path).write(TRAFFIC, (json.dumps(asdict(total), indent=1) + "\n").encode())


def paper_rounds(description: Description, rounds: int, window: Window = None) -> float | None:
    """Return the rounds that a client joins on average if each module travels alone (paper, corrected).

    None for plans of unequal sequences and clients with unequal numbers of slices, where no formula holds.
    """
    slices = {len(client.slices) for client in description.clients}
    lengths = {len(sequence) for sequence in description.sequences}
    if len(slices) != 1 or lengths != {description.groups}:
        return None
    expected = client_rounds_balanced(
        len(description.clients), slices.pop(), description.groups, len(description.sequences), window
    )
    return float(expected) * rounds
