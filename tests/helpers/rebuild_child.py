"""Rebuilding processes for tests: broken on purpose as trainers are elsewhere, and started from a warm one.

To load torch takes most of the time of such a process. So a server loads it once, and forks for each.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ISOLATION = Path(__file__).parents[1] / "build" / "test_build_isolation.py"


def warm(leak: str = "") -> tuple[str, ...]:
    """Return the command of a rebuilding process, with one of the isolation tests' leaks in its code."""
    return sys.executable, __file__, "run", _server(), leak


def broken(leak: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a function that puts the leak into this process."""
    if leak == "other_profile":
        return other_profile
    found: Callable[[pytest.MonkeyPatch], None] = getattr(_isolation(), leak)
    return found


def other_profile(patch: pytest.MonkeyPatch) -> None:
    """Make this process report the profile of a machine with another library."""
    from fedsgt.stack import profile

    inner = profile.describe
    patch.setattr(profile, "describe", lambda device: inner(device) | {"torch": "0.1"})


@functools.cache
def _isolation() -> Any:
    spec = importlib.util.spec_from_file_location("broken_on_purpose", ISOLATION)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _server() -> str:
    folder = tempfile.TemporaryDirectory()
    place = f"{folder.name}/socket"
    command = (sys.executable, __file__, "serve", place)
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def stop() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(stop)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return place


def serve(place: str) -> None:
    """Serve rebuilding processes until standard input ends."""
    import fedsgt.proof.rebuild as _  # noqa: F401

    _isolation()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection, _address = listener.accept()
            with connection:
                told, files, *_rest = socket.recv_fds(connection, 1 << 16, 3)
                child = os.fork()
                if not child:
                    rebuild(json.loads(told), files)
                for file in files:
                    os.close(file)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                with contextlib.suppress(BrokenPipeError):  # who asked may have been killed
                    connection.send(bytes([code & 255]))


def rebuild(arguments: list[str], files: list[int]) -> None:
    import pytest

    from fedsgt.proof.rebuild import main

    code = 1
    try:
        for place, file in enumerate(files):
            os.dup2(file, place)
        sys.argv = arguments
        with pytest.MonkeyPatch.context() as patch:
            if arguments[0]:
                broken(arguments[0])(patch)
            code = main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def run(place: str, arguments: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(place)
        socket.send_fds(server, [json.dumps(arguments).encode()], [0, 1, 2])
        return server.recv(1)[0]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(run(sys.argv[2], sys.argv[3:]))
