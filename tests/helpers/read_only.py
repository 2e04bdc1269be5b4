"""Runs that can only be read: child processes for which a folder is on a read-only mount."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from command import Done, fedsgt

# The folder is mounted over itself, in a namespace that only the child sees.
MOUNT = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
WAYS = (("unshare", "-m"), ("unshare", "-rm"))


def read_only(folder: Path, *command: str) -> list[str]:
    """Return a command that runs `command` where the folder can only be read; skip the test if none can."""
    way = _way()
    if way is None:
        pytest.skip("no read-only mount can be made here: mount namespaces are not allowed")
    return [*way, "sh", "-c", MOUNT, "sh", str(folder), *command]


@functools.cache
def _way() -> tuple[str, ...] | None:
    """Return how a mount namespace is made here; None if it is not allowed."""
    with tempfile.TemporaryDirectory() as place:
        for way in WAYS:
            probe = [*way, "sh", "-c", MOUNT, "sh", place, "sh", "-c", f"! touch {place}/file"]
            try:
                if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                    return way
            except OSError:
                return None
    return None


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python process that can only read the folder."""
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        read_only(folder, sys.executable, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=surroundings,
    )


def commands(folder: Path, *calls: Sequence[str]) -> list[Done]:
    """Run `fedsgt` commands, one after the other, in a process that can only read the folder."""
    child = start(folder, __file__)
    out, _ = child.communicate(json.dumps(calls))
    assert child.returncode == 0
    return [Done(**result) for result in json.loads(out)]


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Return the names, stamps and bytes of all files and folders."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, data)
    return found


if __name__ == "__main__":
    print(json.dumps([vars(fedsgt(*call)) for call in json.load(sys.stdin)]))
