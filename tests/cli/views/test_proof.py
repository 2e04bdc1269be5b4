"""Findings of an audit and a verification, in words: problems first, and a verdict that says so."""

from __future__ import annotations

from dataclasses import replace

from fedsgt.cli.views.proof import audit_text, verification_text
from fedsgt.proof.audit import Finding
from fedsgt.proof.rebuild_process import Verdict
from fedsgt.proof.verify import Verification, VerifiedModule
from fedsgt.proof.verify_statistics import VerifiedStatistic

GOOD = Finding("modules/a/manifest.json", "groups 0 1")
BAD = Finding("copy.bin", "unknown", "not a file of a run")


def test_an_audit_names_problems_first_and_once_more_in_their_place() -> None:
    lines = audit_text([GOOD, BAD]).splitlines()
    assert lines == [
        "FAILED: copy.bin: not a file of a run",
        "",
        "modules/a/manifest.json  groups 0 1",
        "copy.bin                 unknown  PROBLEM: not a file of a run",
        "",
        "2 files: 1 with a problem",
    ]


def test_an_audit_without_a_problem_does_not_say_failed() -> None:
    text = audit_text([GOOD])
    assert text.splitlines()[-1] == "1 file: none depends on deleted data"
    assert "FAILED" not in text


def found(*verdicts: Verdict, unfinished: tuple[int, ...] = ()) -> Verification:
    modules = tuple(VerifiedModule("ab" * 32, (0, 1), verdict, f"why {verdict}") for verdict in verdicts)
    return Verification(
        modules=modules,
        served=2,
        sample=None,
        seed=5,
        position=4,
        unfinished=unfinished,
        data_dependent_choices=(),
        seconds=1.2,
    )


def test_the_verdict_stands_in_the_first_line() -> None:
    firsts = {
        verdict: verification_text(found("same", verdict)).splitlines()[0].split(":")[0]
        for verdict in ("same", "different", "not destroyed", "not comparable")
    }
    assert firsts == {
        "same": "passed",
        "different": "FAILED",
        "not destroyed": "FAILED",
        "not comparable": "UNDECIDED",
    }
    damaged = verification_text(found("same", "damaged"))
    assert damaged.startswith("FAILED: damaged modules, which are not served")


def test_damage_beside_a_difference_is_not_explained_away() -> None:
    """A damaged module alone is harmless; with another one that differs, the run cannot be trusted."""
    text = verification_text(found("damaged", "different"))
    assert text.startswith("FAILED: something is there, or was, that the retained data does not account for")


def test_a_run_that_serves_no_module_is_told_as_that() -> None:
    statistic = VerifiedStatistic("statistics/backbone/0-a.safetensors", (), "a", "same", "both hash to x")
    text = verification_text(replace(found(), served=0, statistics=(statistic,)))
    assert text.splitlines()[2:] == [
        "1 statistic of 1 chain made again: the same, bit for bit",
        "the run serves no module at ledger position 4; verified in 1 s",
    ]


def test_unfinished_requests_are_told_also_if_nothing_is_served() -> None:
    text = verification_text(found(unfinished=(3,)))
    assert "there is nothing to verify" in text
    assert "unfinished requests, no. 3: their bytes may still be there" in text
