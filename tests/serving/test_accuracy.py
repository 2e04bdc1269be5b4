"""Accuracies from probabilities alone: intervals, clearly better strategies, and the file of all this."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binomtest

from fedsgt.plans import STRATEGIES, Prefix, choose
from fedsgt.serving.accuracy import (
    Accuracy,
    Evaluation,
    ExpectedAccuracy,
    StrategyScores,
    chance_of_gain,
    evaluation_of,
    score,
    strategy_answers,
)
from fedsgt.serving.answer import mix_known

PREFIXES: list[Prefix] = [(0, 1), (2,), (), (2, 0)]


@pytest.fixture
def predicted() -> dict[Prefix, np.ndarray]:
    rng = np.random.default_rng(4)
    every: list[Prefix] = [(0,), (0, 1), (2,), (2, 0)]
    return {prefix: rng.dirichlet(np.ones(3), size=50).astype(np.float32) for prefix in every}


LABELS = tuple(int(label) for label in np.random.default_rng(5).integers(3, size=50))


def answers(right: str) -> np.ndarray:
    """Return probabilities whose labels are right (+) or wrong (-) if every record has the label 1."""
    return np.array([[0.0, 1.0] if sign == "+" else [1.0, 0.0] for sign in right])


def test_the_interval_is_wilsons() -> None:
    found = Accuracy.of(answers("+" * 30 + "-" * 10), [1] * 40)
    interval = binomtest(30, 40).proportion_ci(method="wilson")
    assert found.accuracy == 0.75
    assert [found.low, found.high] == pytest.approx([interval.low, interval.high])


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (9, 1), (5, 5), (3, 17), (60, 25), (3000, 2800)])
def test_the_chance_of_a_gain_is_mcnemars(counts: tuple[int, int]) -> None:
    gained, lost = counts
    exact = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert chance_of_gain(gained, lost) == pytest.approx(exact)


def test_records_that_only_one_strategy_gets_right_are_counted() -> None:
    found = StrategyScores.of({"all": answers("++--+"), "long": answers("+-+++")}, [1] * 5)
    assert found.only_right == {"all": {"long": 1}, "long": {"all": 2}}
    assert (found.strategies["all"].accuracy, found.strategies["long"].accuracy) == (0.6, 0.8)


def better(**right: str) -> str | None:
    found = StrategyScores.of({name: answers(told) for name, told in right.items()}, [1] * 200)
    chosen = found.better_than("all")
    return None if chosen is None else chosen.strategy


def test_a_better_strategy_must_be_clearly_better() -> None:
    half = "+" * 100 + "-" * 100
    # Of 200 records 12 are won and none is lost: 6 points, and a chance of 2 / 4096.
    assert better(all=half, long="+" * 112 + "-" * 88) == "long"
    # The same gain of 12 as 62 won and 50 lost may well be luck.
    assert better(all=half, long="-" * 50 + "+" * 112 + "-" * 38) is None
    # Ever so certain, 1.5 points are not worth a change.
    assert better(all=half, long="+" * 103 + "-" * 97) is None
    assert better(all=half, long="-" * 200) is None
    assert better(all=half) is None
    # Of several the best, and among several a chance of 2 / 64 is none to speak of.
    assert better(all=half, min="+" * 112 + "-" * 88, long="+" * 120 + "-" * 80) == "long"
    assert better(all=half, min="+" * 106 + "-" * 94) == "min"
    assert better(all=half, min="+" * 106 + "-" * 94, long=half) is None
    assert better(min=half, long="+" * 200) is None, "the strategy in use was not scored"


def test_a_better_strategy_in_words() -> None:
    answers_of = {"all": answers("+" * 96 + "-" * 104), "long": answers("+" * 127 + "-" * 73)}
    found = StrategyScores.of(answers_of, [1] * 200).better_than("all")
    assert found is not None
    assert found.words() == (
        'LongSeq would be right on 63.5% of the test records (AllSeq: 48.0%): set serving.strategy = "long"'
    )


def test_every_strategy_answers_as_it_is_served(predicted: dict[Prefix, np.ndarray]) -> None:
    found = strategy_answers(predicted, PREFIXES)
    assert found.keys() == STRATEGIES.keys()
    for strategy, told in found.items():
        assert np.array_equal(told, mix_known(predicted, choose(strategy, PREFIXES)))
    assert strategy_answers({}, [(), ()]) == {}


def test_an_evaluation_has_every_live_prefix_and_strategy(predicted: dict[Prefix, np.ndarray]) -> None:
    found = evaluation_of(7, predicted, PREFIXES, LABELS)
    assert [len(curve) for curve in found.sequences] == [2, 1, 0, 2]
    assert found.sequences[0] == [Accuracy.of(predicted[prefix], LABELS) for prefix in ((0,), (0, 1))]
    for strategy in STRATEGIES:
        assert found.strategies[strategy] == score(strategy, predicted, PREFIXES, LABELS)
    assert (found.position, found.records, found.agreement) == (7, 50, None)
    merged = evaluation_of(7, predicted, PREFIXES, LABELS, predicted[0, 1])
    assert merged.strategies["merged"] == Accuracy.of(predicted[0, 1], LABELS)
    assert merged.agreement is not None
    assert evaluation_of(7, {}, [(), ()], LABELS).strategies == {}


def test_the_file_is_read_back_also_that_of_an_older_version(predicted: dict[Prefix, np.ndarray]) -> None:
    found = evaluation_of(7, predicted, PREFIXES, LABELS)
    assert Evaluation.read(found.to_text()) == found
    expected = [ExpectedAccuracy(1, 0.5, 0.0, 1.0), ExpectedAccuracy(2, None, 0.0, 0.0)]
    full = Evaluation(1, 2, [], {}, 0.5, "test-0.safetensors", {}, "all", expected)
    assert Evaluation.read(full.to_text()) == full
    assert full.expected_after(2) == expected[1]
    assert full.expected_after(3) is None
    older = {
        name: value
        for name, value in json.loads(found.to_text()).items()
        if name in ("position", "records", "sequences", "strategies", "agreement")
    }
    read = Evaluation.read(json.dumps(older))
    assert (read.strategies, read.expected, read.test) == (found.strategies, [], None)
    assert read.better_than("all") is None, "pairs were not counted then"
