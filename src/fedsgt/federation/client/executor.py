"""The executor: one process that carries out all tasks of a SuperNode, with the installed FedSGT.

Flower would start a process for each message, which takes two seconds of processor time, and run in it the
code that came with the run. Here a task takes less than a tenth of a second, and code that the server
sends is never run.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from flwr.app import Context, Error, Message

from fedsgt.engine.flower.internals import (
    AcquireTaskRequest,
    ErrorCode,
    HeartbeatSender,
    ProtobufClientInterceptor,
    RuntimeHttpClient,
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SubStatus,
    SuperExecAuthHttpInterceptor,
    TaskType,
    make_simple_http_retry_invoker,
    make_task_heartbeat_fn_http,
    pull_task_input,
    push_message,
    push_task_output,
)

POLL_SECONDS = 0.5  # asking more often costs an idle machine more than it saves
App = Callable[[Message, Context], Message]


def execute(address: str, secret: bytes, app: App) -> None:
    """Carry out the tasks of the SuperNode at this address, one after another, until the process is ended."""
    may_acquire = SuperExecAuthHttpInterceptor(
        master_secret=secret, protected_methods=["/flwr.proto.Runtime/AcquireTask"]
    )
    request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
    with closing(_client(address, may_acquire)) as node:
        while True:
            answer = node.AcquireTask(request)
            # Tasks are done one after another, so that two of them never train at the same time.
            if answer.token:
                _do(address, answer.token, app)
            else:
                time.sleep(POLL_SECONDS)


def _do(address: str, token: str, app: App) -> None:
    with closing(_client(address, RuntimeTokenHttpInterceptor(token))) as task:
        # Training may take hours; without a heartbeat the SuperNode would give the task up.
        heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(task))
        heartbeat.start()
        try:
            message, context, _, _ = pull_task_input(task)
            reply = _reply(app, message, context)
            push_message(task, reply, context)
            failed = reply.has_error()
            push_task_output(task, context, SubStatus.FAILED if failed else SubStatus.COMPLETED, "")
        except Exception:
            traceback.print_exc()  # the run may have been stopped meanwhile; the next task is a new one
        finally:
            heartbeat.stop()


def _reply(app: App, message: Message, context: Context) -> Message:
    """Return the app's reply, or an error without its text, which may name records and stays in the log."""
    try:
        return app(message, context)
    except Exception as error:
        traceback.print_exc()
        kind = f"{type(error).__name__}; the client's executor.log says more"
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, kind), reply_to=message)


def _client(address: str, interceptor: ProtobufClientInterceptor) -> RuntimeHttpClient:
    return RuntimeHttpClient.from_server_address(
        address,
        insecure=True,  # the connection never leaves this machine
        root_certificates=None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"), interceptor],
        retry_invoker=make_simple_http_retry_invoker(),
    )


def main() -> None:
    """Run the executor; its arguments are the SuperNode's address and the file of their shared secret."""
    from fedsgt.federation.client.node_app import app

    execute(sys.argv[1], Path(sys.argv[2]).read_bytes(), app)


if __name__ == "__main__":
    main()
