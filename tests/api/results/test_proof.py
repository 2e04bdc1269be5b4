"""Verifications and audits as objects: words, JSON and tables."""

from __future__ import annotations

import pytest

from fedsgt.api.results.proof import Audit, Verification
from fedsgt.proof.audit import Finding
from fedsgt.proof.rebuild_process import Verdict
from fedsgt.proof.verify import Verification as FullVerification
from fedsgt.proof.verify import VerifiedModule


@pytest.mark.parametrize(
    ("verdicts", "passed", "failed", "word"),
    [
        (("same", "same"), True, False, "passed: 2 same"),
        (("same", "different"), False, True, "FAILED: 1 same, 1 different"),
        (("same", "not comparable"), False, False, "undecided: 1 same, 1 not comparable"),
        ((), True, False, "passed: nothing to verify"),
    ],
)
def test_a_verification_says_one_of_three_things(
    verdicts: tuple[Verdict, ...], passed: bool, failed: bool, word: str
) -> None:
    modules = tuple(VerifiedModule("k" * 64, (0, 1), verdict, "") for verdict in verdicts)
    found = Verification.of(FullVerification(modules, 5, None, 1, 2, (), (), 0.5))
    assert (found.passed, found.failed) == (passed, failed)
    assert repr(found) == f"<Verification {word} of 5 modules served>"
    assert found.to_json()["passed"] is passed
    assert found._repr_html_().count("<tr>") == 1 + len(verdicts)


def test_an_audit_has_its_problems_first() -> None:
    good, bad = Finding("a", "nothing"), Finding("b", "groups 1", "not <destroyed>")
    assert Audit.of([good]).clean
    assert repr(Audit.of([good])) == "<Audit of 1 file: clean>"
    found = Audit.of([good, bad])
    assert (found.clean, found.problems) == (False, [bad])
    assert repr(found) == "<Audit of 2 files: b: not <destroyed>>"
    page = found._repr_html_()
    assert page.index("<td>b</td>") < page.index("<td>a</td>")
    assert "&lt;destroyed&gt;" in page
