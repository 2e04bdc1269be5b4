"""The checks of the campaigns find what they are made for."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from attacks.adapter import Look, Request
from attacks.campaigns import Plan, Result
from attacks.case import Case
from attacks.page import as_json, page
from attacks.planted import PLANTS
from attacks.predictors import _judge
from attacks.shadow import Shadow
from attacks.world import default_rows, write_source
from fedsgt.runs.artefacts import REGISTRY, kind_of
from fedsgt.runs.dependencies import Nothing, StoredFile
from fedsgt.store import Folder

KEY, OTHER = "a" * 64, "b" * 64
LOOK = Look(
    id="run",
    position=3,
    requests=(Request(3, frozenset({0})),),
    modules={KEY: frozenset({0}), OTHER: frozenset({1})},
    served=frozenset({OTHER}),
    prefixes=((1,),),
    groups_of={f"c{number}": [0, 1] for number in range(4)},
    hashes={OTHER: "hash"},
)


@pytest.fixture
def case() -> Case:
    return Case("kills/sqlite/3", 7)


@pytest.fixture
def shadow(case: Case, tmp_path: Path) -> Shadow:
    rows = default_rows()
    file = write_source(tmp_path / "source", rows)
    found = Shadow(case, tmp_path / "run", rewrites=True)
    for number in range(4):
        found.enrol(f"c{number}", file, rows)
    return found


def broken(case: Case) -> list[str]:
    return [one.what.partition(":")[0] for one in case.broken]


def test_a_broken_promise_is_kept_once_with_the_command_that_repeats_it(case: Case) -> None:
    case.note("killed at step 3")
    for _ in range(2):
        case.expect(False, "a dead module is served")
    (found,) = case.broken
    assert found.repeat == "python -m attacks kills/sqlite/3 --seed 7"
    assert found.history == ("killed at step 3",)
    assert case.counts["checks"] == 2


def test_two_cases_of_the_same_name_and_seed_draw_the_same(case: Case) -> None:
    again, other = Case("kills/sqlite/3", 7), Case("kills/sqlite/4", 7)
    drawn = [one.rng.random() for one in (case, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_good_state_breaks_nothing(shadow: Shadow) -> None:
    shadow.killed.add(KEY)
    shadow.check_state(LOOK, LOOK)
    assert broken(shadow.case) == []


def test_served_dead_and_changed_and_lost_modules_are_found(shadow: Shadow) -> None:
    shadow.killed.add(OTHER)
    shadow.check_state(LOOK, LOOK)
    shadow.killed.clear()
    shadow.hashes[OTHER] = "another hash"
    shadow.check_state(LOOK, LOOK)
    shadow.check_state(LOOK, Look(**{**vars(LOOK), "hashes": {}}))
    assert broken(shadow.case) == [
        "dead modules are served",
        "modules have other bytes than before",
        "live modules are gone",
    ]


def test_a_cut_ledger_is_found(shadow: Shadow) -> None:
    shadow.acknowledged = 4
    shadow.check_state(LOOK, LOOK)
    assert broken(shadow.case) == ["the ledger is shorter than it was"]


def test_an_unreadable_source_is_found(shadow: Shadow) -> None:
    shadow.enrolments["c0"].file.write_bytes(b"half a file")
    shadow.check_state(LOOK, LOOK)
    assert broken(shadow.case) == ["the owners' file cannot be read"]


def test_lost_rows_and_rows_that_came_back_are_found(shadow: Shadow) -> None:
    file = shadow.enrolments["c0"].file
    deleted, lost = sorted(shadow.enrolments["c0"].left)[:2]
    shadow.apply(("c0", (deleted,), None), LOOK, 3)
    table = pq.read_table(file)
    pq.write_table(table.filter([name != lost for name in table.column("id").to_pylist()]), file)
    (file.parent / ".train.parquet.erasing").touch()
    shadow._check_file(file, settled=True)
    assert broken(shadow.case) == [
        "rows that nobody deleted are gone from the owners' file",
        "deleted rows are in the owners' file",
        "files beside the owners' file",
    ]


def test_remains_of_killed_writers_must_go_with_the_next_deletion(shadow: Shadow) -> None:
    said = {"export/half": "does not say which modules it was made of; remove it"}
    shadow._check_audit(said)
    assert broken(shadow.case) == []
    (record, *_) = (name for name, index in shadow.enrolments["c0"].left.items() if index == 0)
    shadow.apply(("c0", (record,), None), LOOK, 3)
    shadow._check_audit(said)
    assert broken(shadow.case) == ["the audit is not clean"]


def test_a_dead_file_on_disk_is_found_by_its_name_and_by_its_bytes(shadow: Shadow) -> None:
    shadow.killed.add(KEY)
    shadow.hashes[KEY] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"  # of "secret"
    (shadow.path / "export").mkdir(parents=True)
    (shadow.path / "export" / "copy").write_text("secret")
    (shadow.path / f"{KEY}.old").touch()
    shadow._check_disk()
    assert sorted(broken(shadow.case)) == ["a dead module is still on disk"] * 2


def test_answers_are_judged_by_what_was_acknowledged_before_they_were_asked_for(case: Case) -> None:
    answers = [(1.0, 2, frozenset({KEY})), (3.0, 4, frozenset({OTHER})), (3.5, None, frozenset[str]())]
    _judge(case, answers, [(2.0, 4, {KEY})])
    assert broken(case) == []
    _judge(case, [(3.0, 3, frozenset({KEY}))], [(2.0, 4, {KEY})])
    assert len(case.broken) == 2


def test_every_kind_of_artefact_that_depends_on_data_is_planted(tmp_path: Path) -> None:
    """A kind that is new in the registry needs a plant."""
    names = [name.replace("KEY", KEY).replace("MARK", OTHER) for plant in PLANTS.values() for name in plant]
    planted = {kind_of(StoredFile(name, Folder(tmp_path))) for name in names}
    for kind in set(REGISTRY) - planted:
        assert isinstance(kind.made_of(StoredFile("any", Folder(tmp_path))), Nothing), kind.names


def test_the_page_and_the_file_tell_what_was_broken_and_how_to_repeat_it(case: Case) -> None:
    case.expect(False, "the run does not open: why")
    result = Result("kills", cases=1, counts=case.counts, broken=case.broken)
    for text in (page(Plan(seed=7), [result]), as_json(Plan(seed=7), [result])):
        assert "the run does not open: why" in text
        assert "python -m attacks kills/sqlite/3 --seed 7" in text
    assert "no promise was broken" in page(Plan(), [Result("kills")])
