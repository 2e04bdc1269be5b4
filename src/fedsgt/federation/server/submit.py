"""Runs of the Flower app at a SuperLink: how they are submitted, followed and stopped."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flwr.app import UserConfigValue

from fedsgt.engine.flower.internals import (
    Fab,
    ListRunsRequest,
    RunStatus,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
    build_fab_from_disk,
    fab_to_proto,
    user_config_to_proto,
)
from fedsgt.errors import InputError
from fedsgt.federation.server.superlink import Unreachable, control
from fedsgt.federation.settings import ServerSettings

APP = Path(__file__).parents[1] / "app"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class FlowerRun:
    """One run of the app at the SuperLink; Flower's id of it is not the id of the FedSGT run."""

    settings: ServerSettings
    run_id: int

    def status(self) -> str:
        """Return pending, starting, running, finished:completed, finished:failed or finished:stopped.

        A SuperLink that was started again has forgotten its earlier runs; their status is unknown.
        """
        found = self._status()
        return UNKNOWN if found is None else ":".join(filter(None, (found.status, found.sub_status)))

    def stop(self) -> None:
        """Stop the run, unless it has ended or is unknown."""
        if self.status() in ("pending", "starting", "running"):
            with control(self.settings) as client:
                client.StopRun(StopRunRequest(run_id=self.run_id))

    def log_tail(self, lines: int = 20) -> list[str]:
        """Return the last lines that the app printed; none before it runs."""
        if self.status() in (UNKNOWN, "pending", "starting"):
            return []  # Flower would wait until there is a first line
        with control(self.settings) as client:
            # The first message has all lines so far; the ones after it would be waited for until the run
            # ends.
            stream = client.StreamLogs(StreamLogsRequest(run_id=self.run_id))
            try:
                text = next(stream).log_output
            except StopIteration:
                text = ""
            finally:
                stream.close()
        return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]

    def _status(self) -> RunStatus | None:
        try:
            with control(self.settings) as client:
                runs = client.ListRuns(ListRunsRequest(run_id=self.run_id)).run_dict
        except Unreachable:
            raise
        # A refusal means that the SuperLink knows no such run, because it was started anew.
        except InputError:
            return None
        return runs[self.run_id].status if self.run_id in runs else None


def submit(settings: ServerSettings, run_config: Mapping[str, UserConfigValue], app: Path = APP) -> FlowerRun:
    """Start a run of the app with these values over those of its `pyproject.toml`."""
    code = bundle(app)
    request = StartRunRequest(
        fab=fab_to_proto(Fab(hashlib.sha256(code).hexdigest(), code, {})),
        override_config=user_config_to_proto(dict(run_config)),
    )
    with control(settings) as client:
        answer = client.StartRun(request)
    if not answer.HasField("run_id"):
        raise InputError("the SuperLink did not start the run; its log says why")
    return FlowerRun(settings, answer.run_id)


def bundle(app: Path) -> bytes:
    """Return the archive of an app's folder, as Flower sends it."""
    with warnings.catch_warnings():
        # Flower calls a library in a deprecated way, about which a user can do nothing.
        warnings.simplefilter("ignore", DeprecationWarning)
        return build_fab_from_disk(app)
