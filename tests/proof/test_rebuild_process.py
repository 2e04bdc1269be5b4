"""The process that trains modules again: its end, its failures and its surroundings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from rebuild_child import warm

from fedsgt.errors import InputError
from fedsgt.proof.verify import verify
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.work import WORK, work_folders
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept

pytestmark = pytest.mark.usefixtures("temporary")


def test_interrupted_in_the_middle(folder: RunFolder) -> None:
    """A deletion that comes in stops it as Ctrl-C does, and the process and its folder are gone at once."""

    def interrupt(share: float) -> None:
        (place,) = work_folders(folder.path)
        assert place.stat().st_mode & 0o777 == 0o700
        raise KeyboardInterrupt

    def delete(share: float) -> None:
        accept(folder, [Deletion("c0", slices=(0,))])

    with pytest.raises(KeyboardInterrupt):
        verify(folder, progress=interrupt)
    assert not (folder.path / WORK).exists()
    with pytest.raises(InputError, match="a deletion came in meanwhile"):
        verify(folder, progress=delete, command=warm())
    assert not (folder.path / WORK).exists()


FAILURES = {
    "import sys; print('[1]'); print('noise'); sys.exit('no room')": r"exit code 1 \(no room\)",
    "import os; os.kill(os.getpid(), 9)": r"exit code -9 \(-9 is often too little memory\)",
    """print('{"error": "the backbone is not there"}'); raise SystemExit(2)""": "^the backbone is not there$",
}


@pytest.mark.parametrize("code", FAILURES)
def test_the_process_fails(folder: RunFolder, code: str) -> None:
    with pytest.raises(InputError, match=FAILURES[code]):
        verify(folder, command=(sys.executable, "-c", code))


def test_the_process_has_surroundings_of_its_own(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    code = "import json, os; print(json.dumps({'error': json.dumps(dict(os.environ))})); raise SystemExit(2)"
    with pytest.raises(InputError) as raised:
        verify(folder, command=(sys.executable, "-c", code))
    assert '"OMP_NUM_THREADS": "1"' in str(raised.value)
    assert "PYTHONHASHSEED" not in str(raised.value)
    assert os.environ["PYTHONHASHSEED"] == "7"
