"""The worker process of a pool: `python -P pool_process.py HANDLE PARENT`, a script and not a module.

So it never imports the caller's main module, which may train as soon as it is imported. It starts with the
standard library alone: the caller's first message says where everything else is found.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from multiprocessing.connection import Connection

LOOK_SECONDS = 1.0


def main(handle: int, parent: int) -> None:
    """Search modules where the caller does, then do jobs until the connection ends."""
    connection = Connection(handle)
    threading.Thread(target=_end_with, args=(handle, parent), daemon=True).start()
    try:
        sys.path[:] = connection.recv()
    except (EOFError, OSError):
        return
    from fedsgt.engine.pool import serve
    from fedsgt.files.optional import import_fast

    import_fast()
    serve(connection)


def _end_with(handle: int, parent: int) -> None:
    """End this process, whatever it is doing, when the caller has closed the connection or is gone."""
    # No signal at the parent's death (PR_SET_PDEATHSIG): it would come with the end of the thread that made
    # this process. The parent's id is for callers that have forked: their copies keep the connection open.
    ended = select.poll()
    ended.register(handle, 0)  # asked for nothing, it reports the other end's closing alone
    while not ended.poll(LOOK_SECONDS * 1000) and os.getppid() == parent:
        pass
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
