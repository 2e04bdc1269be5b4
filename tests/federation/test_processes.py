"""Child processes end with their parent, and one server at a time runs on a folder."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deployment import command_of, until
from remote_world import ended_at_last

from fedsgt.errors import InputError
from fedsgt.federation.processes import only_one


def test_a_child_ends_with_its_parent_however_that_ends(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; from pathlib import Path; from fedsgt.federation.processes import Child\n"
        f"child = Child(['/bin/sleep', '600'], Path({str(tmp_path / 'log')!r}), os.environ)\n"
        "print(child.process.pid, flush=True); time.sleep(600)"
    )
    with ended_at_last([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        until(lambda: command_of(child).startswith(b"/bin/sleep"))
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
        until(lambda: not command_of(child))


def test_a_second_server_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with (
        only_one(tmp_path, "server"),
        pytest.raises(InputError, match="a server is running on this folder"),
        only_one(tmp_path, "server"),
    ):
        pass
