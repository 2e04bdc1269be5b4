"""`fedsgt unlearn --subject`: one answer that says what happened where."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import cast

import pytest
from command import fedsgt, shown

from fedsgt.cli.commands.unlearn_subject import exit_code
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.records import load_run_clients
from fedsgt.unlearning.subject import State, SubjectOutcome
from fedsgt.unlearning.unlearn import Receipt


def a_record(run: str) -> str:
    folder = open_run(Path(run))
    return load_run_clients(folder, folder.description).local[1].records[0].id


def test_previewed_deleted_and_deleted_again(run: str) -> None:
    record, head = a_record(run), open_run(Path(run)).ledger.head()
    planned = shown("unlearn", run, "--subject", record, "--dry-run")
    assert planned.startswith(f"{run}: 1 id would be deleted\ndry run: nothing was changed")
    assert "client-1: 1 record (in slice" in planned
    (told,) = json.loads(shown("unlearn", run, "--subject", record, "--dry-run", "--json"))
    assert told["impact"]["records"] == 1
    assert open_run(Path(run)).ledger.head() == head
    answer = shown("unlearn", run, "--subject", record)
    assert f"{run}: deleted by request no. " in answer
    assert "client     client-1: 1 record" in answer
    again = shown("unlearn", run, "--subject", record)
    assert "was deleted before, by request no. " in again
    planned = shown("unlearn", run, "--subject", record, "--subject", "nobody", "--dry-run")
    assert f"nothing would change; {record!r} was deleted before, by request no. " in planned
    assert "no client of this run ever had 'nobody'" in planned


def test_an_unknown_id_among_others_is_named(run: str) -> None:
    """The others are deleted, so that the exit code is 3, and 2 when nothing is left to delete."""
    record = a_record(run)
    done = fedsgt("unlearn", run, "--subject", "nobody", "--subject", record)
    assert done.returncode == 3, done.stderr
    assert "; no client of this run ever had 'nobody'" in done.stdout
    again = fedsgt("unlearn", run, "--subject", "nobody", "--subject", record, "--json")
    assert again.returncode == 2, again.stderr
    (told,) = json.loads(again.stdout)
    assert (told["state"], told["unknown"], list(told["deleted_before"])) == ("gone", ["nobody"], [record])


def outcome(state: State, *unknown: str, pending: str | None = None) -> SubjectOutcome:
    folder = cast(RunFolder, None)
    receipt = Receipt(3, "", 1, [0], 1, False, pending=pending) if state == "deleted" else None
    return SubjectOutcome(folder, state, "", receipt, unknown=unknown)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([outcome("deleted"), outcome("gone")], 0),
        ([outcome("deleted"), outcome("unknown", "a")], 0),
        ([outcome("deleted", pending="its certificate")], 3),
        ([outcome("deleted", "a"), outcome("unknown", "b", "a")], 3),
        ([outcome("gone", "a")], 2),
        ([outcome("unknown", "a")], 2),
        ([outcome("remote")], 2),
        ([outcome("remote"), outcome("unknown", "a")], 2),
        ([outcome("remote"), outcome("deleted")], 3),
        ([outcome("remote"), outcome("gone")], 3),
        ([outcome("refused")], 2),
        ([outcome("refused"), outcome("deleted")], 3),
        ([outcome("not known"), outcome("deleted"), outcome("refused")], 4),
    ],
)
def test_exit_codes(outcomes: list[SubjectOutcome], code: int) -> None:
    assert exit_code(outcomes) == code


def test_an_id_that_is_nowhere_is_an_error(run: str) -> None:
    done = fedsgt("unlearn", run, "--subject", "nobody", "--json")
    assert done.returncode == 2
    (told,) = json.loads(done.stdout)
    assert (told["state"], told["answer"]) == ("unknown", None)


def test_a_misspelt_run_leaves_no_half_deletion(run: str, tmp_path: Path) -> None:
    record, head = a_record(run), open_run(Path(run)).ledger.head()
    done = fedsgt("unlearn", run, str(tmp_path / "nowhere"), "--subject", record)
    assert done.returncode == 2
    assert "no such run" in done.stderr
    assert open_run(Path(run)).ledger.head() == head


def test_a_run_that_cannot_be_deleted_from_is_told_among_the_others(run: str, tmp_path: Path) -> None:
    """The other deletion is in force, so that the exit code is 3."""
    shown("copy", run, str(tmp_path / "other"))
    other = tmp_path / "other"
    (other / "signing.key").write_text("no key")
    (other / "signing.key").chmod(0o600)
    done = fedsgt("unlearn", str(other), run, "--subject", a_record(run), "--json")
    assert done.returncode == 3, done.stderr
    states = {entry["run"]: entry["state"] for entry in json.loads(done.stdout)}
    assert states == {str(other): "refused", run: "deleted"}
    assert not open_run(other).live().requests
    told = fedsgt("unlearn", str(other), "--subject", a_record(run)).stdout
    assert f"{other}: NOT IN FORCE: " in told
    assert told.count("nothing was changed") == 1
    assert "the deletion is not in force" not in told
    shutil.rmtree(other)


def test_it_stands_alone(run: str) -> None:
    done = fedsgt("unlearn", run, "--subject", "a", "--client", "1")
    assert done.returncode == 2
    assert "--subject stands alone" in done.stderr
    assert "only --subject takes several" in fedsgt("unlearn", run, run, "--client", "1", "--all").stderr
