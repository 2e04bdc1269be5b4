"""The helper process of a session: does the tasks that come over a socket, and sends back their results."""

from __future__ import annotations

import pickle
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from fedsgt.engine.pool import Failure
from fedsgt.errors import InputError


def main(handle: int) -> None:
    """Answer until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks deals with Ctrl-C, and ends this process
    connection = Connection(handle)
    state: dict[str, Any] = {}
    while True:
        try:
            task, arguments = connection.recv()
        except (EOFError, OSError):
            return
        # A told event that cannot be sent ends the task: nobody waits for its result any more.
        answer = _answer(task, state, arguments, lambda event: connection.send(("event", event)))
        try:
            connection.send(("done", answer))
        except OSError:
            return


def _answer(task: Any, state: dict[str, Any], arguments: tuple[Any, ...], tell: Any) -> Any:
    try:
        return task(state, *arguments, tell=tell)
    except Exception as error:
        return Failure(_sendable(error))


def _sendable(error: Exception) -> Exception:
    """Return the error, or its words alone if it cannot be pickled and put together again."""
    if not isinstance(error, InputError):
        return error  # travels as text
    try:
        return error if str(pickle.loads(pickle.dumps(error))) == str(error) else InputError(str(error))
    except Exception:  # whatever a class of errors does when it is made from its words
        return InputError(str(error))


if __name__ == "__main__":
    main(int(sys.argv[1]))
