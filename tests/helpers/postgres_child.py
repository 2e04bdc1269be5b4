"""A PostgreSQL server for as long as standard input is open: no end of its parent leaves it behind.

`python postgres_child.py BIN` prints the folder of the server's socket once the server is ready, and removes
everything at the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Nothing here outlives the tests, so the disk is not waited for. The others are defaults that a server may
# have and that the ledger must not take over.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "default_transaction_isolation": "repeatable read",
    "shared_buffers": "16MB",
}
# The server refuses to run as root.
USER = "nobody" if os.geteuid() == 0 else None


def main() -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    # Short, since the path of a socket may not have more than about a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if USER:
            shutil.chown(folder, USER)
        serve(reachable(Path(sys.argv[1]), folder), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reachable(programs: Path, folder: Path) -> Path:
    """Return a folder from which the server's user can run the programs: a home folder may be closed."""
    if not USER or all(parent.stat().st_mode & 0o001 for parent in (programs, *programs.parents)):
        return programs
    # With the libraries that a wheel has beside its package.
    package = programs.parents[1]
    for source in (programs.parent, package.with_name(f"{package.name}.libs")):
        if source.is_dir():
            shutil.copytree(source, folder / source.relative_to(package.parent))
    return folder / programs.relative_to(package.parent)


def serve(programs: Path, folder: Path) -> None:
    options = ["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale"]
    run: dict[str, Any] = {"user": USER, "cwd": folder, "stdin": subprocess.DEVNULL, "stdout": sys.stderr}
    subprocess.run([programs / "initdb", "-D", "data", *options], check=True, **run)
    settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
    server = subprocess.Popen([programs / "postgres", "-D", "data", "-k", folder, *settings], **run)
    try:
        wait_until_ready(server, folder / "data" / "postmaster.pid")
        print(folder, flush=True)
        sys.stdin.read()
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait()


def wait_until_ready(server: subprocess.Popen[bytes], status: Path) -> None:
    while not (status.exists() and "ready" in status.read_text().split()):
        if server.poll() is not None:
            raise RuntimeError("the server ended before it was ready")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
