"""High-water marks as files: private, whole, never moved backwards, and refused when they make no sense."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from fedsgt.errors import InputError
from fedsgt.ledger import marks
from fedsgt.ledger.marks import Mark, MarkFile, state_folder

MARK = Mark(5, "a" * 64, {3: "b" * 16})


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDSGT_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(marks, "_warned", set())
    return tmp_path / "state"


def test_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDSGT_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", "/xdg")
    assert state_folder() == Path("/xdg/fedsgt")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert state_folder() == Path("/home/me/.local/state/fedsgt")


def test_a_mark_reads_as_it_was_written_and_holds_positions_and_hashes_only(place: Path) -> None:
    file = MarkFile("run")
    assert (file.read(), file.stamp()) == (None, None)
    file.change(lambda old: MARK)
    assert file.read() == MARK
    values = json.loads((place / "marks" / "run.json").read_text())
    assert values == {"format": 1, "position": 5, "hash": "a" * 64, "requests": {"3": "b" * 16}}
    assert (place / "marks").stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in (place / "marks").iterdir()) == ["run.json", "run.lock"]


def test_the_mark_of_a_run_that_is_gone_can_go_and_no_other(place: Path) -> None:
    for name in ("run", "other"):
        MarkFile(name).change(lambda old: MARK)
    MarkFile("run").forget()
    MarkFile("never").forget()
    assert sorted(path.name for path in (place / "marks").iterdir()) == ["other.json", "other.lock"]


def test_nothing_is_written_for_nothing() -> None:
    file = MarkFile("run")
    file.change(lambda old: None)
    assert not file.path.parent.exists()


def test_an_id_does_not_lead_out_of_the_folder(place: Path) -> None:
    for run in ("../../x", "/etc/x", ".."):
        MarkFile(run).change(lambda old: MARK)
        assert MarkFile(run).path.parent == place / "marks"


BAD = {
    "no json": "{",
    "a list": "[]",
    "another key": json.dumps({"format": 1, "position": 5, "hash": "a" * 64, "requests": {}, "x": 1}),
    "no number": json.dumps({"format": 1, "position": "5", "hash": "a" * 64, "requests": {}}),
    "no hash": json.dumps({"format": 1, "position": 5, "hash": "a", "requests": {}}),
    "a name": json.dumps({"format": 1, "position": 5, "hash": "a" * 64, "requests": {"x": "b"}}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_mark(name: str) -> None:
    file = MarkFile("run")
    file.path.parent.mkdir(parents=True)
    file.path.write_text(BAD[name])
    with pytest.raises(InputError, match=r"run\.json: not the mark of a ledger; restore this file"):
        file.read()


def test_a_newer_mark() -> None:
    file = MarkFile("run")
    file.path.parent.mkdir(parents=True)
    file.path.write_text(json.dumps({"format": 2, "anything": 1}))
    with pytest.raises(InputError, match="newer version of fedsgt"):
        file.read()


def test_without_a_writable_place_there_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDSGT_STATE", str(tmp_path / "file"))
    for _ in range(2):
        MarkFile("run").change(lambda old: MARK)
    warned = capsys.readouterr().err
    assert warned.count("\n") == 1
    assert warned.startswith(f"fedsgt: warning: {tmp_path / 'file'}/marks/run.json cannot be written")
    assert "FEDSGT_STATE" in warned


def test_changes_at_once_come_one_after_another() -> None:
    def up(old: Mark | None) -> Mark:
        return Mark((old.position if old else 0) + 1, "a" * 64)

    threads = [threading.Thread(target=lambda: MarkFile("run").change(up)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = MarkFile("run").read()
    assert found is not None
    assert found.position == 8
