"""`fedsgt audit`: exit code, text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

from command import fedsgt


def test_the_audit_fails_when_it_should(run: str) -> None:
    (Path(run) / "copy.safetensors").write_text("a copy")
    done = fedsgt("audit", run)
    assert done.returncode == 1
    assert "PROBLEM: not a file of a run" in done.stdout
    assert json.loads(fedsgt("audit", run, "--json").stdout)["ok"] is False


def test_all_files_are_listed_with_what_they_depend_on(run: str) -> None:
    done = fedsgt("audit", run, "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["ok"] is True
    assert all(file.keys() == {"name", "depends_on", "problem"} for file in told["files"])
    named = {file["name"] for file in told["files"]}
    there = {path.relative_to(run).as_posix() for path in Path(run).rglob("*.safetensors")}
    assert there <= named
    text = fedsgt("audit", run).stdout
    assert text.splitlines()[-1] == f"{len(named)} files: none depends on deleted data"


def test_a_folder_that_is_no_run_is_one_line(tmp_path: Path) -> None:
    done = fedsgt("audit", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
