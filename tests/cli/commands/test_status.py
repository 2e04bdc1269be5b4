"""`fedsgt status` as a person and a program see it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import fedsgt, shown
from paper_run import delete, describe, fill, paper_run

from fedsgt.reporting.status import run_status
from fedsgt.runs.folder import RunFolder

BRANCHED = [(0, 1, 2, 3), (0, 1, 3), (2, 3)]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe(BRANCHED, [10, 20, 30, 40]))
    fill(made, lambda prefix: prefix != (0, 1, 3))
    return made


def test_requests_forecast_and_policy_are_told(folder: RunFolder) -> None:
    delete(folder, 2)
    page = shown("status", str(folder.path), "--requests", "3")
    assert "1 slice (30 records)" in page
    lines = [line.split() for line in page.splitlines()]
    assert [line[0] for line in lines if len(line) == 3 and line[1].endswith("%")] == ["1", "2", "3"]
    assert "never; not due" in page
    assert "group 0 (12% a request) takes 2 modules and leaves 0 groups" in page
    assert not any(line != line.rstrip() for line in page.splitlines())


def test_nothing_trained_yet_is_not_exhaustion(tmp_path: Path) -> None:
    paper_run(tmp_path / "run", describe(BRANCHED, [10, 20, 30, 40]))
    page = shown("status", str(tmp_path / "run"))
    assert "EXHAUSTED" not in page
    assert "no module is trained yet" in page


def test_json_is_the_outlook(folder: RunFolder) -> None:
    found = json.loads(shown("status", str(folder.path), "--json", "--requests", "2"))
    assert found == json.loads(json.dumps(run_status(folder, 2).to_json()))


def test_watching_tells_a_change_in_a_line(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request comes while it waits, then nothing, then Ctrl-C."""
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            delete(folder, 2)
        elif len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", wait)
    lines = shown("status", str(folder.path), "--watch", "--every", "0.5").splitlines()
    assert waits == [0.5] * 3
    assert [line.partition(": ")[0] for line in lines] == ["position 2", "position 6"]
    assert "1 request served" in lines[1]


def test_watching_for_programs_gives_an_object_a_line(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", stop)
    (line,) = shown("status", str(folder.path), "--watch", "--json").splitlines()
    assert json.loads(line)["position"] == 2


def test_it_needs_no_torch(folder: RunFolder) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from fedsgt.cli.commands.status import status
        status(Path(sys.argv[1]))
        print(sorted({"torch", "transformers", "matplotlib", "jinja2", "pyarrow"} & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder.path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("[]\n")


def test_a_wrong_run_is_one_line(tmp_path: Path) -> None:
    done = fedsgt("status", str(tmp_path / "none"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert fedsgt("status", str(tmp_path), "--requests", "0").returncode == 2
