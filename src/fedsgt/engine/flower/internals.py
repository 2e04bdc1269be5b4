"""Everything that FedSGT uses of Flower beyond its public modules, each with the reason.

Public are `flwr.app`, `flwr.serverapp`, `flwr.clientapp` and `flwr.simulation`: Flower documents them and
lists their names. Everything else may change with any release, so `pyproject.toml` pins Flower's version. No
other file of the package imports such a name. A test tries every import of this file, and prints the comment
above one that is gone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from flwr.app import Message

# Makes the archive of an app that a SuperLink takes; otherwise only the command `flwr run` makes one.
from flwr.cli.build import build_fab_from_disk

# ErrorCode: codes by which Flower tells a node that is away from a program that failed.
# SubStatus: how a task ended, which the executor has to report to its SuperNode.
from flwr.common.constant import ErrorCode, SubStatus

# Turn the app's archive and its settings into the message that starts a run at a SuperLink.
from flwr.common.serde import fab_to_proto, user_config_to_proto

# Messages of a SuperLink's control API: let in clients, start, follow and stop a run of the app.
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
)

# Status of a run of the app, as the control API tells it.
from flwr.proto.run_pb2 import RunStatus

# Message by which the executor asks its SuperNode for a task.
from flwr.proto.runtime_pb2 import AcquireTaskRequest

# Turns an address to listen on into one to connect to: 0.0.0.0 becomes this machine.
from flwr.supercore.address import resolve_bind_address

# The kind of task that the executor takes: messages for a ClientApp.
from flwr.supercore.constant import TaskType

# Client of a SuperLink's control API. The command `flwr` does the same, but takes two seconds to start.
from flwr.supercore.control import ControlHttpClient

# An app's archive with its hash, as a run is started with it.
from flwr.supercore.fab import Fab

# Without a heartbeat, a SuperNode gives a long training up and tells the server that it failed.
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http

# Headers that SuperLink and SuperNode insist on: Flower's version, a task's token, the executor's secret.
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)

# Common type of these interceptors.
from flwr.supercore.protobuf.client import ProtobufClientInterceptor

# The executor waits while its SuperNode is not ready, as Flower's own executor does.
from flwr.supercore.retry import make_simple_http_retry_invoker

# Every `Grid` has to answer with a Run, also the grid without a network.
from flwr.supercore.run import Run

# Client of a SuperNode's runtime API, from which the executor gets its tasks.
from flwr.supercore.runtime import RuntimeHttpClient

# A Message takes its sender from here, also where no Flower process has filled it in.
from flwr.supercore.task_identity import TaskIdentity

# Fetch a task's message and hand back its answer, piece by piece, as Flower's own executor does.
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

__all__ = [
    "AcquireTaskRequest",
    "ControlHttpClient",
    "ErrorCode",
    "Fab",
    "HeartbeatSender",
    "ListNodesRequest",
    "ListRunsRequest",
    "ProtobufClientInterceptor",
    "RegisterNodeRequest",
    "Run",
    "RunStatus",
    "RuntimeHttpClient",
    "RuntimeTokenHttpInterceptor",
    "RuntimeVersionHttpInterceptor",
    "StartRunRequest",
    "StopRunRequest",
    "StreamLogsRequest",
    "SubStatus",
    "SuperExecAuthHttpInterceptor",
    "TaskIdentity",
    "TaskType",
    "build_fab_from_disk",
    "fab_to_proto",
    "make_simple_http_retry_invoker",
    "make_task_heartbeat_fn_http",
    "pull_task_input",
    "push_message",
    "push_task_output",
    "resolve_bind_address",
    "run_superlink",
    "set_message_id",
    "silence_simulation",
    "user_config_to_proto",
]


def set_message_id(message: Message, name: str) -> None:
    """Give a message its id, which Flower's own grids do when they send it."""
    message.metadata.__dict__["_message_id"] = name


def silence_simulation() -> None:
    """Keep `flwr.simulation.run_simulation` from reporting to Flower's makers.

    The environment variable against that is read when Flower is imported, which may have happened before; and
    even with it, an id would be written into the user's home.
    """
    # The name of the module is also that of its function, so that `import` alone would find the function.
    importlib.import_module("flwr.simulation.run_simulation").event = _no_report  # type: ignore[attr-defined]


def run_superlink(middleware: Callable[..., Any]) -> None:
    """Run the command `flower-superlink` with this middleware around its HTTP application."""
    # Imported here: this takes half a second, and only the SuperLink's own process needs it.
    # Flower has no option for middleware, so that the function that makes its application is replaced.
    from flwr.superlink import main as service

    # The command itself, with all its options.
    from flwr.superlink.cli.flower_superlink import flower_superlink

    make_app = service.create_app

    def make_app_with_middleware(*arguments: Any, **options: Any) -> Any:
        app = make_app(*arguments, **options)
        app.add_middleware(middleware)
        return app

    service.create_app = make_app_with_middleware
    flower_superlink()


def _no_report(*arguments: object, **options: object) -> None: ...
