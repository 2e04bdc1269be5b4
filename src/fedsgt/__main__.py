"""The `fedsgt` command, also as `python -m fedsgt`: deals with signals before anything slow is imported."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command; a signal while modules are imported, or at the very end, is no traceback either."""
    _leave_at_once(None)
    atexit.register(_ignore)  # called last of all: Python then gives signals back their deadly defaults
    from fedsgt.files.optional import end_fast, import_fast

    import_fast()
    from fedsgt.cli import main as run

    code: str | int | None = 128 + signal.SIGINT  # if one comes while the command takes its own handlers back
    try:
        run()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        pass
    _leave_at_once(code)
    # If Ctrl-C has ever stopped an `exec` of a text, as of a dataclass, `python -m` would now die of SIGINT
    # whatever our code is. Another `exec` makes it forget.
    exec("")
    end_fast()
    sys.exit(code)


NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _ignore() -> None:
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)


def _leave_at_once(code: str | int | None) -> None:
    """End the process at the next signal, with this exit code; None stands for that of the signal."""

    def leave(number: int, frame: FrameType | None) -> None:
        os._exit(code if isinstance(code, int) else 128 + number)

    for number in NUMBERS:
        # A signal that is ignored, as SIGHUP is under nohup, stays so.
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, leave)


if __name__ == "__main__":
    main()
