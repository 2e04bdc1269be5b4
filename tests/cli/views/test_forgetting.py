"""Figures of an attack, and their meaning in words."""

from __future__ import annotations

import numpy as np
import pytest

from fedsgt.cli.views.forgetting import forgetting_text
from fedsgt.forgetting.measure import LIRA, Attack, AttackResult, Forgetting
from fedsgt.forgetting.membership import Interval


def interval(value: float, low: float, high: float, method: str = "DeLong") -> Interval:
    return Interval(value, low, high, method)


VERDICTS = [
    (interval(0.7, 0.6, 0.8), interval(0.5, 0.4, 0.6), "before: the attack recognises records"),
    (interval(0.7, 0.6, 0.8), interval(0.5, 0.4, 0.6), "after: the interval contains 0.5: no better"),
    (interval(0.5, 0.4, 0.6), interval(0.5, 0.4, 0.6), "before: the interval contains 0.5: it recognises"),
    (interval(0.3, 0.2, 0.4), interval(0.3, 0.2, 0.4), "before: below 0.5"),
    (interval(0.3, 0.2, 0.4), interval(0.3, 0.2, 0.4), "after: the interval is below 0.5: chance"),
    (interval(0.7, 0.6, 0.8), interval(0.7, 0.6, 0.8), "after: the interval is above 0.5: chance"),
    (interval(1.0, 0.8, 1.0, "exact"), interval(0.5, 0.4, 0.6), "1.000  0.800 to 1.000 (exact)"),
]


@pytest.mark.parametrize(("before", "after", "text"), VERDICTS)
def test_verdicts(before: Interval, after: Interval, text: str) -> None:
    scores = np.arange(3.0), np.arange(2.0)
    results = [AttackResult(auc, {"1%": None, "5%": 0.25}, scores) for auc in (before, after)]
    found = Forgetting(5, "all", 0, 3, 1, False, 16, 4, None, {LIRA: Attack(*results)}, 1.2)
    shown = forgetting_text(found)
    assert text in shown
    assert "25% at 5%" in shown
    assert "1 deleted record not attacked" in shown
    assert "not the very modules of then" in shown
    assert "fedsgt verify does" in shown


def test_nothing_to_attack_after_the_deletions() -> None:
    before = AttackResult(interval(0.7, 0.6, 0.8), {"1%": None, "5%": 0.25}, (np.arange(3.0), np.arange(2.0)))
    reason = "no module is live, so there is nothing to ask"
    found = Forgetting(5, "all", 0, 3, 0, True, 16, 4, reason, {LIRA: Attack(before, None)}, 1.2)
    shown = forgetting_text(found)
    assert f"after: {reason}" in shown
    assert "LiRA, before" in shown
    assert "LiRA, after" not in shown
