"""The description in force is the one that the ledger knows; a kill at any step leaves a run that opens."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from command import fedsgt
from kill_at_step import FILES, KillAtStep
from paper_run import delete, describe, fill, paper_run, rebuild
from sqlalchemy import event
from sqlalchemy.engine import Engine
from tiny_deletions import bytes_of, copied, problems

from fedsgt.errors import InputError
from fedsgt.runs.artefacts import DESCRIPTION, NEXT_DESCRIPTION
from fedsgt.runs.folder import RunFolder, open_run, read_run
from fedsgt.unlearning.unlearn import recover

ROTATIONS = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]
REFUSED = "not the description that the ledger knows, so nothing is served; restore run.json from a backup"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe(ROTATIONS, [5, 5, 5]))
    fill(made)
    return made


def edit(folder: RunFolder, **changes: object) -> None:
    file = folder.path / DESCRIPTION
    file.write_text(json.dumps(json.loads(file.read_text()) | changes, indent=1) + "\n")


def test_an_edited_description_is_refused_by_every_command(folder: RunFolder) -> None:
    delete(folder, 2)
    run = str(folder.path)
    edit(folder, as_of=folder.live().position)
    folder.ledger.close()
    commands = (
        ["status", run],
        ["show", run],
        ["audit", run],
        ["records", run, "--client", "client-0"],
        ["retrain", run],
        ["predict", run, "--test"],
        ["verify", run],
        ["unlearn", run, "--client", "client-0", "--all"],
        ["copy", run, f"{run}.copy"],
        ["replay", run],
    )
    for command in commands:
        done = fedsgt(*command)
        assert (done.returncode, done.stdout) == (2, ""), command
        assert REFUSED in done.stderr, command


def test_who_has_the_run_open_notices_an_edit(folder: RunFolder) -> None:
    delete(folder, 2)
    right = (folder.path / DESCRIPTION).read_bytes()
    edit(folder, as_of=folder.live().position)
    with pytest.raises(InputError, match=REFUSED):
        folder.live()
    (folder.path / DESCRIPTION).unlink()
    with pytest.raises(InputError, match=REFUSED):
        folder.live()
    (folder.path / DESCRIPTION).write_bytes(right)
    assert folder.live().dead == {2}


def test_a_description_that_is_not_in_force_counts_nothing(folder: RunFolder) -> None:
    """One that somebody put there, or whose writer was killed before the ledger had it."""
    delete(folder, 2)
    other = folder.live().description.model_copy(update={"as_of": folder.live().position})
    (folder.path / NEXT_DESCRIPTION).write_text(other.to_text())
    assert folder.live().dead == {2}
    assert open_run(folder.path).live().dead == {2}
    assert not (folder.path / NEXT_DESCRIPTION).exists(), "swept"


def test_a_deleted_description(folder: RunFolder) -> None:
    (folder.path / DESCRIPTION).unlink()
    with pytest.raises(
        InputError, match=r"it has no run\.json; restore run\.json from a backup; nothing was"
    ):
        open_run(folder.path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"no json", b"\xff\xfe", b"[" * 100_000, b'{"format": 2, "labels": true}', b"null"],
    ids=lambda content: repr(content[:20]),
)
def test_a_damaged_description_says_what_to_do(folder: RunFolder, content: bytes) -> None:
    whole = (folder.path / DESCRIPTION).read_bytes()
    for damaged in (content, whole[:300]):
        (folder.path / DESCRIPTION).write_bytes(damaged)
        before = bytes_of(folder.path)
        done = fedsgt("unlearn", str(folder.path), "--client", "c0", "--slice", "0")
        assert done.returncode == 2
        assert done.stderr.startswith(f"fedsgt: {folder.path / DESCRIPTION}: not a run's description (")
        assert done.stderr.endswith("); restore this file from a backup; nothing was changed\n")
        assert done.stderr.count("\n") == 1
        assert bytes_of(folder.path) == before
    (folder.path / DESCRIPTION).write_bytes(whole)
    open_run(folder.path)


def test_a_newer_description(folder: RunFolder) -> None:
    edit(folder, format=3, more="things")
    with pytest.raises(InputError, match=r"run\.json: it was made by a newer version of fedsgt \(format 3; "):
        open_run(folder.path)


def test_a_description_of_format_1_keeps_its_bytes(folder: RunFolder) -> None:
    text = folder.description.model_copy(update={"format": 1}).to_text()
    (folder.path / DESCRIPTION).write_text(text)
    assert '"format": 1' in text
    assert read_run(folder.path).description.to_text() == text


def test_a_reader_that_sees_both_names_change_finds_the_description(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer describes the run anew between the reader's look at the ledger and at the files."""
    delete(folder, 2)
    reader, ledger = read_run(folder.path), type(folder.ledger)
    inner, waiting = ledger.entries, [True]

    def entries(self: object, after: int = 0) -> object:
        found = inner(self, after)  # type: ignore[arg-type]
        if self is reader.ledger and waiting:
            waiting.clear()
            rebuild(folder)
        return found

    monkeypatch.setattr(ledger, "entries", entries)
    assert reader.live().description.as_of == folder.live().description.as_of > 0


def in_a_child(work: Callable[[KillAtStep], None], step: int | None) -> bool:
    """Do the work in another process, killed at this step; return whether it came to its end."""
    child = os.fork()
    if child == 0:
        steps = KillAtStep(step)
        steps.watch(os, *FILES, after=True)
        steps.watch(fcntl, "flock", after=True)
        for name in ("commit", "begin", "after_cursor_execute"):
            event.listen(Engine, name, steps.tick)
        try:
            work(steps)
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code == 0


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = paper_run(tmp_path_factory.mktemp("source") / "run", describe(ROTATIONS, [5, 5, 5]))
    fill(folder)
    delete(folder, 2)
    folder.ledger.close()
    return folder.path


def describe_and_die(path: Path, step: int | None) -> bool:
    def work(steps: KillAtStep) -> None:
        folder = open_run(path)
        fresh = describe(ROTATIONS, [5, 5, 5], fresh={2}, id=folder.description.id)
        # Another plan too: modules that no description names any more must go.
        fewer = describe(ROTATIONS[:1], [5, 5, 5], fresh={2}).modules
        kept = {entry.key for entry in fewer}
        changed = fresh.model_copy(
            update={
                "as_of": folder.live().position,
                "sequences": [list(ROTATIONS[0])],
                "modules": [entry for entry in fresh.modules if entry.key in kept],
            }
        )
        folder.describe_anew(changed)
        steps.write_count(path.with_name("count"))

    return in_a_child(work, step)


def open_and_die(path: Path, step: int) -> None:
    def work(steps: KillAtStep) -> None:
        open_run(path)

    in_a_child(work, step)


def check_after(path: Path) -> bool:
    """Whether the new description is in force; in any case the run opens, and no trace is left."""
    folder = open_run(path)
    live = folder.live()
    assert not (path / NEXT_DESCRIPTION).exists()
    assert folder.description is live.description
    assert folder.present() <= set(live.description.keys.values())
    assert problems(folder) == [] or live.description.as_of == 0
    recover(folder)
    delete(folder, 0)
    assert problems(folder) == []
    assert open_run(path).live().dead >= {0}
    return live.description.as_of > 0


def steps_of(source: Path, path: Path) -> int:
    """Return the number of steps of a new description that nobody kills."""
    copied(source, path).ledger.close()
    assert describe_and_die(path, None)
    assert check_after(path)
    return int(path.with_name("count").read_text())


def check_killed_at(step: int, source: Path, path: Path) -> bool:
    copied(source, path).ledger.close()
    assert not describe_and_die(path, step)
    return check_after(path)


def test_killed_at_some_steps_of_a_new_description(source: Path, tmp_path: Path) -> None:
    chosen = range(2, steps_of(source, tmp_path / "whole") + 1, 9)
    known = [check_killed_at(step, source, tmp_path / f"run-{step}") for step in chosen]
    assert known == sorted(known), "once it is in force it stays so"
    assert {False, True} == set(known)


@pytest.mark.slow
def test_killed_at_every_step_of_a_new_description(source: Path, tmp_path: Path) -> None:
    count = steps_of(source, tmp_path / "whole")
    known = [check_killed_at(step, source, tmp_path / f"run-{step}") for step in range(1, count + 1)]
    assert known == sorted(known)
    assert {False, True} == set(known)


def test_killed_while_finishing_what_another_left(source: Path, tmp_path: Path) -> None:
    count = steps_of(source, tmp_path / "whole")
    for step in (2 * count // 3, count - 4):
        path = tmp_path / f"run-{step}"
        copied(source, path).ledger.close()
        assert not describe_and_die(path, step)
        for again in range(1, 40, 9):
            open_and_die(path, again)
        assert check_after(path)
