"""The high-water mark of a ledger: kept with every request, and an older ledger is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from databases import execute, tamper

from fedsgt.ledger import marks
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Ledger, RolledBack, file_url
from fedsgt.ledger.marks import MarkFile

RUN = "the-run"


def append(ledger: Ledger, *kinds: Kind) -> None:
    for kind in kinds:
        with ledger.writing() as writer:
            writer.append(kind, {"n": writer.head})


@pytest.fixture
def ledger(ledger_url: str) -> Ledger:
    made = Ledger.create(ledger_url, RUN, {})
    append(made, Kind.BUILT)
    return made


def test_a_run_without_a_request_has_no_mark(ledger: Ledger) -> None:
    ledger.high_water.rise()
    assert ledger.high_water.mark() is None
    ledger.high_water.check()


def test_every_request_raises_the_mark(ledger: Ledger) -> None:
    append(ledger, Kind.REQUEST, Kind.CONDEMNED, Kind.REQUEST)
    found, entries = ledger.high_water.mark(), ledger.entries()
    assert found is not None
    assert (found.position, found.hash) == (5, entries[4].hash)
    assert found.requests == {3: entries[2].hash[:16], 5: entries[4].hash[:16]}
    append(ledger, Kind.DESTROYED)
    assert ledger.high_water.mark() == found, "other entries wait for the next opening"
    ledger.high_water.rise()
    found = ledger.high_water.mark()
    assert found is not None
    assert (found.position, list(found.requests)) == (6, [3, 5])


def test_a_ledger_that_was_cut_is_refused_and_names_what_it_lacks(ledger_url: str, ledger: Ledger) -> None:
    append(ledger, Kind.REQUEST, Kind.DESTROYED, Kind.REQUEST)
    ledger.close()
    tamper(ledger_url, f"DELETE FROM fedsgt_ledger WHERE run = '{RUN}' AND position > 4")
    cut = Ledger.open(ledger_url, RUN)
    with pytest.raises(RolledBack, match=r"was at entry 5 before, and it lacks 1 deletion request, no\. 5;"):
        cut.high_water.check()
    mark = cut.high_water.mark()
    cut.entries()
    cut.high_water.rise()
    append(cut, Kind.REQUEST, Kind.REQUEST)
    assert cut.high_water.mark() == mark, "another future does not hide the lost one"
    with pytest.raises(RolledBack, match=r"no\. 5;"):
        cut.high_water.check()
    cut.high_water.reset()
    cut.high_water.check()
    fresh = cut.high_water.mark()
    assert fresh is not None
    assert list(fresh.requests) == [3, 5, 6]


def test_marks_of_runs_in_one_database_are_apart(ledger_url: str, ledger: Ledger) -> None:
    other = Ledger.create(ledger_url, "another", {})
    append(ledger, Kind.REQUEST)
    append(other, Kind.REQUEST)
    assert [one.high_water.mark().position for one in (ledger, other)] == [3, 2]  # type: ignore[union-attr]


def test_a_database_of_an_earlier_version_gets_the_table(ledger_url: str, ledger: Ledger) -> None:
    if ledger_url.startswith("sqlite"):
        pytest.skip("its marks are files")
    append(ledger, Kind.REQUEST)
    ledger.close()
    execute(ledger_url, "DROP TABLE fedsgt_marks")
    again = Ledger.open(ledger_url, RUN)
    assert again.high_water.mark() is None
    append(again, Kind.REQUEST)
    found = again.high_water.mark()
    assert found is not None
    assert list(found.requests) == [3, 4]


def test_a_request_is_accepted_without_a_place_for_marks(
    ledger_url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(marks, "_warned", set())
    if ledger_url.startswith("sqlite"):
        path = MarkFile(RUN).path
        path.parent.mkdir(parents=True)
        path.write_text("damaged")
    else:
        execute(ledger_url, "ALTER TABLE fedsgt_marks ADD CHECK (mark = '')")
    append(ledger, Kind.REQUEST, Kind.REQUEST)
    assert ledger.head() == 4
    assert capsys.readouterr().err.count("fedsgt: warning:") == 1


def test_who_has_an_old_copy_open_notices_a_deletion_in_the_new_one(tmp_path: Path) -> None:
    """Two folders with one id: a predictor on the one must stop once the other has a request more."""
    here = Ledger.create(file_url(tmp_path / "here"), RUN, {})
    append(here, Kind.REQUEST)
    here.close()
    shutil.copy(tmp_path / "here", tmp_path / "there")
    here, there = (Ledger.open(file_url(tmp_path / name), RUN) for name in ("here", "there"))
    there.high_water.check()
    append(here, Kind.REQUEST)
    here.high_water.check()
    with pytest.raises(RolledBack, match=r"lacks 1 deletion request, no\. 3"):
        there.high_water.check()


def test_a_copied_ledger_has_the_same_entries_under_another_id(ledger_url: str, ledger: Ledger) -> None:
    append(ledger, Kind.REQUEST, Kind.DESTROYED, Kind.BUILT)
    copy = ledger.copy(ledger_url, "copy", 4, [(Kind.COPIED, {"run": RUN})])
    old, new = ledger.entries(), copy.entries()
    assert [(e.position, e.kind, e.time, e.body) for e in new[:4]] == [
        (e.position, e.kind, e.time, e.body) for e in old[:4]
    ]
    assert [(e.position, e.kind, json.dumps(e.body)) for e in new[4:]] == [
        (5, "copied", json.dumps({"run": RUN}))
    ]
    assert {e.hash for e in old}.isdisjoint(e.hash for e in new)
    assert Ledger.open(ledger_url, "copy").entries() == new
