"""Trackers of a run's metrics: the file `metrics.jsonl`, and on request TensorBoard or MLflow.

A tracker listens to the events of a training and is closed at its end.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from fedsgt.engine.events import (
    KINDS,
    ClientTrouble,
    ClientUpdated,
    Event,
    EventStream,
    Listener,
    ModuleFinished,
    RoundFinished,
    append_line,
)
from fedsgt.errors import InputError


class Measurement(NamedTuple):
    """The numbers of an event, as points of named curves."""

    event: str
    """Kind of the event."""
    name: str
    """Name of the curve."""
    step: int
    """Position on the curve."""
    numbers: dict[str, float]
    about: dict[str, Any]
    """Other values of the event, for readers of the metrics file."""


def measurement(event: Event) -> Measurement | None:
    """Return the numbers of an event, or None if it belongs in no metrics."""
    # Reports, deletions and audits read these names and keys, in files of older versions too.
    kind = KINDS[type(event)]
    about: dict[str, Any]
    match event:
        case ClientUpdated():
            # The loss first, as in older files.
            numbers = _loss(event) | {"records": event.records, "seconds": round(event.seconds, 4)}
            if event.used is not None:
                numbers["used"] = event.used
            about = {"module": event.module, "client": event.client}
            return Measurement(kind, f"{_joined(event.groups)}/{event.client}", event.round, numbers, about)
        case RoundFinished():
            numbers = _loss(event) | {"seconds": round(event.seconds, 4)}
            about = {"module": event.module, "groups": list(event.groups)}
            return Measurement(kind, _joined(event.groups), event.round, numbers, about)
        case ModuleFinished():
            about = {"module": event.module, "groups": list(event.groups), "sha256": event.sha256}
            return Measurement(kind, _joined(event.groups), len(event.groups), dict(event.metrics), about)
        case ClientTrouble():
            return Measurement(kind, event.client, 0, {}, {"client": event.client, "what": event.what})
    return None


def _loss(event: ClientUpdated | RoundFinished) -> dict[str, float]:
    return {} if event.loss is None else {"loss": event.loss}


class MetricsFile:
    """The run's metrics as JSON lines, appended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A crash may have cut the last line short; it must not swallow the next one.
        if path.exists() and path.read_bytes()[-1:] not in (b"", b"\n"):
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")

    def __call__(self, event: Event) -> None:
        found = measurement(event)
        if found is None:
            return
        # JSON has no word for NaN and infinity.
        numbers = {name: value if math.isfinite(value) else None for name, value in found.numbers.items()}
        # Milliseconds: enough to order lines, and not so many digits that files grow by them.
        head = {"time": round(time.time(), 3), "event": found.event, "name": found.name, "step": found.step}
        append_line(self.path, {**head, **found.about, **numbers})

    def close(self) -> None:
        """Do nothing: the file is closed after each line."""


class TensorBoard:
    """Scalars `event number/name` in the run's `tensorboard` folder."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter  # an optional package

        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def __call__(self, event: Event) -> None:
        for curve, value, step in _points(event):
            self.writer.add_scalar(curve, value, step)

    def close(self) -> None:
        self.writer.close()


class MLflow:
    """Metrics of one MLflow run, at MLFLOW_TRACKING_URI or else in a database in the run's folder."""

    def __init__(self, folder: Path) -> None:
        import mlflow  # an optional package
        from mlflow.tracking import MlflowClient

        # Unless the user chose a server, metrics stay in the run's folder, where a deletion finds them.
        uri = (
            mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else f"sqlite:///{folder / 'mlflow.db'}"
        )
        self.client = MlflowClient(tracking_uri=uri)
        known = self.client.get_experiment_by_name("fedsgt")
        experiment = known.experiment_id if known else self.client.create_experiment("fedsgt")
        self.run = self.client.create_run(experiment, run_name=folder.name).info.run_id

    def __call__(self, event: Event) -> None:
        for curve, value, step in _points(event):
            self.client.log_metric(self.run, curve, value, step=step)

    def close(self) -> None:
        self.client.set_terminated(self.run)


Tracker: TypeAlias = MetricsFile | TensorBoard | MLflow
TRACKERS: dict[str, Callable[[Path], Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def check_trackers(names: Sequence[str]) -> None:
    """Raise if a tracker's package is not installed."""
    # Looked for without being imported, because both take seconds to import.
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise InputError(f"engine.trackers: {name} is not installed; pip install 'fedsgt[tracking]'")


@contextmanager
def open_trackers(names: Sequence[str], folder: Path) -> Iterator[Listener]:
    """Yield a listener that feeds the run's `metrics.jsonl` and the named trackers; close them at the end."""
    with ExitStack() as opened:
        opening: list[Callable[[Path], Tracker]] = [_metrics_file, *(TRACKERS[name] for name in names)]
        yield EventStream(*(opened.enter_context(closing(make(folder))) for make in opening))


def _points(event: Event) -> Iterator[tuple[str, float, int]]:
    """Yield curve, value and step of each number of an event."""
    found = measurement(event)
    if found is not None:
        for number, value in found.numbers.items():
            yield f"{found.event} {number}/{found.name}", value, found.step


def _metrics_file(folder: Path) -> MetricsFile:
    return MetricsFile(folder / "metrics.jsonl")


def _joined(groups: Sequence[int]) -> str:
    return "-".join(map(str, groups))
