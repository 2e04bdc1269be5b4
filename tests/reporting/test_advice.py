"""Advice that minds accuracy: what is hardly better than guessing, and what will fall far."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedsgt.reporting.advice import (
    advise_on_accuracy,
    advise_on_heads,
    advise_on_survival,
    advise_without_a_plan,
    advise_without_modules,
    expected_fall,
    poor_accuracy,
)
from fedsgt.reporting.heads import HeadsStatus
from fedsgt.serving.accuracy import Accuracy, Evaluation, ExpectedAccuracy


def evaluation(now: float, ahead: float | None, strategy: str = "all") -> Evaluation:
    served = Accuracy(now, now - 0.02, now + 0.02)
    expected = [ExpectedAccuracy(1, ahead, 0.0, 0.9)]
    return Evaluation(
        3, 400, [], {"all": served, "long": served}, expected=expected, expected_strategy=strategy
    )


@pytest.mark.parametrize(
    ("accuracy", "labels", "poor"),
    [
        (Accuracy(0.17, 0.13, 0.21), 10, True),
        (Accuracy(0.22, 0.18, 0.26), 10, False),
        (Accuracy(0.52, 0.47, 0.57), 2, True),
        (Accuracy(0.9, 0.8, 0.95), 2, False),
        (Accuracy(0.4, 0.35, 0.45), 2, True),  # worse than guessing
        (Accuracy(2 / 3, 0.3, 0.9), 3, False),  # too few records to tell
        (Accuracy(1.0, 0.9, 1.0), 1, False),  # with one label there is nothing to guess
        (None, 10, False),
    ],
)
def test_an_accuracy_near_guessing_is_poor(accuracy: Accuracy | None, labels: int, poor: bool) -> None:
    assert (poor_accuracy(accuracy, labels) is not None) is poor


def test_poor_accuracy_in_words() -> None:
    words = "accuracy is 17.0% (10 labels; guessing gives 10.0%)"
    assert poor_accuracy(Accuracy(0.17, 0.13, 0.21), 10) == words


def test_a_fall_of_more_than_five_points_is_told() -> None:
    assert expected_fall(evaluation(0.9, 0.86)) is None
    assert expected_fall(evaluation(0.9, 0.7)) == (
        "accuracy is expected to fall from 90.0% to 70.0% with it, if anything is live"
    )
    assert expected_fall(evaluation(0.9, None)) is None
    assert expected_fall(Evaluation(3, 400, [], {})) is None
    assert expected_fall(None) is None


def test_what_is_bad_now_comes_first_and_needs_something_to_retrain() -> None:
    bad = advise_on_accuracy(evaluation(0.12, 0.05), "all", 10, whole=False)
    assert bad is not None
    assert (bad.urgency, bad.words[:11]) == ("now", "Retrain now")
    whole = advise_on_accuracy(evaluation(0.12, 0.05), "all", 10, whole=True)
    assert whole is not None
    assert "retrain" not in whole.words.lower()
    falling = advise_on_accuracy(evaluation(0.9, 0.5), "long", 10, whole=False)
    assert falling is not None
    assert (falling.urgency, falling.words[:31]) == ("soon", "Retrain before the next request")
    assert advise_on_accuracy(evaluation(0.9, 0.5), "long", 10, whole=True) is None
    assert advise_on_accuracy(evaluation(0.9, 0.9), "long", 10, whole=False) is None
    assert advise_on_accuracy(None, "all", 10, whole=False) is None


def test_survival_alone() -> None:
    assert advise_on_survival(3, whole=False).urgency == "soon"
    assert advise_on_survival(1, whole=False).words.startswith("Retrain before the next request:")
    assert advise_on_survival(3, whole=True).urgency == "none"
    assert advise_on_survival(None, whole=False).urgency == "none"


def test_advice_without_a_module_says_what_can_answer() -> None:
    solved = HeadsStatus(records=564, clients=3, chains=1, statistics=3, missing=0, bytes=100, floor=1.0)
    alone = advise_without_modules(solved, left=True)
    assert alone.urgency == "soon"
    assert "the bare backbone answers alone, with a head of 564 records" in alone.words
    none = HeadsStatus(records=0, clients=0, chains=0, statistics=0, missing=3, bytes=0, floor=0.0)
    heads = advise_without_modules(none, left=True)
    assert heads.urgency == "now"
    assert heads.words.startswith(
        "Run fedsgt heads now: nothing can be served until it has made the 3 missing"
    )
    assert advise_without_modules(None, left=True).words.startswith("Retrain now")
    assert "No record is left" in advise_without_modules(solved, left=False).words


def test_advice_for_a_plan_without_modules_never_asks_for_training() -> None:
    solved = HeadsStatus(records=564, clients=3, chains=1, statistics=3, missing=0, bytes=100, floor=1.0)
    assert advise_without_a_plan(solved, left=True).words.startswith("Nothing is to be trained: something")
    assert "No record is left" in advise_without_a_plan(solved, left=False).words
    broken = replace(solved, records=0, damaged=3)
    assert "has made the 3 damaged statistics." in advise_without_a_plan(broken, left=True).words
    assert "no head is solved" in advise_without_a_plan(None, left=True).words
    assert advise_without_a_plan(replace(solved, missing=1), left=True).urgency == "soon"


def test_missing_statistics_are_counted() -> None:
    some = HeadsStatus(records=50, clients=2, chains=4, statistics=8, missing=1, bytes=100, floor=0.1)
    assert "the 1 missing statistic, " in advise_on_heads(some).words
    assert some.words().endswith("8 statistics of 4 chains (100 B), 1 missing")
    both = replace(some, damaged=2)
    assert "the 3 missing or damaged statistics, " in advise_on_heads(both).words
    assert both.words().endswith("1 missing, 2 damaged")


def test_with_solved_heads_being_able_to_serve_needs_no_retraining() -> None:
    found = advise_on_survival(None, False, solved=True)
    assert (found.urgency, found.words[:18]) == ("none", "No need to retrain")
    assert "as long as a record is left" in found.words
