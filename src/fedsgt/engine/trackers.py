"""Where metrics go: a line of JSON each, and on request TensorBoard or MLflow, behind one interface."""

from __future__ import annotations

import importlib.util
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fedsgt.errors import InputError


class Tracker(Protocol):
    """Takes events with their numbers; what it does with them changes nothing of the training."""

    def log(self, event: str, name: str, step: int, numbers: Mapping[str, float], **about: Any) -> None:
        """`name` tells curves apart, `step` orders their points; `about` is for people and programs."""

    def close(self) -> None: ...


class JsonLines:
    """One object a line, appended; a line that a crash cut short does not swallow the next."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists() and path.read_bytes()[-1:] not in (b"", b"\n"):
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")

    def log(self, event: str, name: str, step: int, numbers: Mapping[str, float], **about: Any) -> None:
        told = {key: value if math.isfinite(value) else None for key, value in numbers.items()}
        line = {"time": round(time.time(), 3), "event": event, "name": name, "step": step, **about, **told}
        # Opened anew each time: a deletion may put another file, with fewer lines, in its place.
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def close(self) -> None: ...


class TensorBoard:
    """Scalars `number/name` under the run's `tensorboard` folder."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, event: str, name: str, step: int, numbers: Mapping[str, float], **about: Any) -> None:
        for number, value in numbers.items():
            self.writer.add_scalar(f"{event} {number}/{name}", value, step)

    def close(self) -> None:
        self.writer.close()


class MLflow:
    """Metrics of one MLflow run, at MLFLOW_TRACKING_URI or else in a database in the run's folder."""

    def __init__(self, folder: Path) -> None:
        import mlflow
        from mlflow.tracking import MlflowClient

        uri = (
            mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else f"sqlite:///{folder / 'mlflow.db'}"
        )
        self.client = MlflowClient(tracking_uri=uri)
        found = self.client.get_experiment_by_name("fedsgt")
        experiment = found.experiment_id if found else self.client.create_experiment("fedsgt")
        self.run = self.client.create_run(experiment, run_name=folder.name).info.run_id

    def log(self, event: str, name: str, step: int, numbers: Mapping[str, float], **about: Any) -> None:
        for number, value in numbers.items():
            self.client.log_metric(self.run, f"{event} {number}/{name}", value, step=step)

    def close(self) -> None:
        self.client.set_terminated(self.run)


TRACKERS: dict[str, Callable[[Path], Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def check_trackers(names: Sequence[str]) -> None:
    """That what they need is installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise InputError(f"engine.trackers: {name} is not installed; pip install 'fedsgt[tracking]'")


def open_trackers(names: Sequence[str], folder: Path) -> list[Tracker]:
    """The run's `metrics.jsonl`, and what the configuration names besides."""
    return [JsonLines(folder / "metrics.jsonl"), *(TRACKERS[name](folder) for name in names)]
