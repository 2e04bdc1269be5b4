"""Accuracy of what is served: the content of `evaluation.json`, and what follows from it without torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, lgamma, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsgt.plans import MERGED, STRATEGIES, STRATEGY_NAMES, Choice, Prefix, choose, choose_solved
from fedsgt.serving.answer import Floats, agreement, mix_known
from fedsgt.serving.heads import DamagedStatistic

CLEAR_GAIN = 0.02  # a strategy must be better by so much of the test records to be recommended
CLEAR_CHANCE = 0.05  # and a gain like it must be rarer than this if both were equally good


@dataclass(frozen=True)
class Accuracy:
    """Share of correctly predicted test records, with its 95 % interval (Wilson)."""

    accuracy: float
    low: float
    high: float

    @classmethod
    def of(cls, probabilities: Floats, labels: Sequence[int]) -> Accuracy:
        return cls.of_right(right_answers(probabilities, labels))

    @classmethod
    def of_right(cls, right: NDArray[np.bool_]) -> Accuracy:
        """Return the accuracy, given which records were predicted correctly."""
        total = len(right)
        share = int(right.sum()) / total
        z = 1.959964  # quantile of the normal distribution for 95 %
        middle = (share + z * z / (2 * total)) / (1 + z * z / total)
        half = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
        return cls(share, middle - half, middle + half)


def right_answers(probabilities: Floats, labels: Sequence[int]) -> NDArray[np.bool_]:
    """Return for each record whether its most probable label is the right one."""
    right: NDArray[np.bool_] = probabilities.argmax(axis=-1) == np.array(labels)
    return right


@dataclass(frozen=True)
class ExpectedAccuracy:
    """Accuracy to expect after further requests, in those cases in which something is still live."""

    requests: int
    """Number of further requests; each is taken to hit one group, by the records left in it."""
    accuracy: float | None
    """Mean accuracy over the cases in which something is live; None if none was met."""
    stderr: float
    """Standard error of the simulated mean; 0 if it is exact."""
    alive: float
    """Chance that something is live."""


@dataclass(frozen=True)
class BetterStrategy:
    """A strategy that is clearly better than the one in use, with the same modules on the same records."""

    strategy: str
    accuracy: float
    served: str
    """Strategy in use."""
    served_accuracy: float

    def words(self) -> str:
        """Return the recommendation in one sentence."""
        better, served = STRATEGY_NAMES[self.strategy], STRATEGY_NAMES[self.served]
        return (
            f"{better} would be right on {self.accuracy:.1%} of the test records ({served}: "
            f'{self.served_accuracy:.1%}): set serving.strategy = "{self.strategy}"'
        )


@dataclass(frozen=True)
class StrategyScores:
    """Accuracy of each strategy on the same modules and test records."""

    strategies: dict[str, Accuracy]
    """By name of the strategy; empty if no module is live."""
    only_right: dict[str, dict[str, int]]
    """Number of test records on which the first strategy is right and the second one wrong."""

    @classmethod
    def of(cls, answers: Mapping[str, Floats], labels: Sequence[int]) -> StrategyScores:
        """Score the class probabilities that each strategy gives."""
        right = {name: right_answers(found, labels) for name, found in answers.items()}
        only = {
            one: {other: int((right[one] & ~right[other]).sum()) for other in right if other != one}
            for one in right
        }
        return cls({name: Accuracy.of_right(found) for name, found in right.items()}, only)

    def better_than(self, served: str) -> BetterStrategy | None:
        """Return the strategy that is clearly better than the one in use; None if none is.

        The test is paired: only records on which the two differ count (McNemar's exact test).
        """
        others = [name for name in self.strategies if name != served and name in self.only_right]
        if served not in self.only_right:
            return None
        clear = [
            name
            for name in others
            if self.strategies[name].accuracy - self.strategies[served].accuracy >= CLEAR_GAIN
            # Divided by the number of strategies that are tried: the best of several is good by luck, too.
            and chance_of_gain(self.only_right[name][served], self.only_right[served][name])
            < CLEAR_CHANCE / len(others)
        ]
        if not clear:
            return None
        best = max(clear, key=lambda name: self.strategies[name].accuracy)
        return BetterStrategy(best, self.strategies[best].accuracy, served, self.strategies[served].accuracy)


@dataclass(frozen=True)
class Evaluation:
    """Accuracy of every live prefix and of every strategy."""

    position: int
    """Ledger position at which it was measured."""
    records: int
    """Number of test records."""
    sequences: list[list[Accuracy]]
    """By sequence, then by number of modules; empty for a sequence without a live module."""
    strategies: dict[str, Accuracy]
    """By name of the strategy; empty if no module is live. `merged` is there only if it was computed."""
    agreement: float | None = None
    """Share of test records to which `merged` gives the label that AllSeq gives."""
    test: str | None = None
    """Name of the test records: that of the files of their kept probabilities."""
    only_right: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of test records on which the first strategy is right and the second one wrong."""
    expected_strategy: str | None = None
    """Strategy whose accuracies are expected; AllSeq in place of `merged`, which needs the modules."""
    expected: list[ExpectedAccuracy] = field(default_factory=list)
    """Accuracy to expect after 1, 2, ... further requests; empty if it takes too long to compute."""
    solved_from: int = 0
    """Number of records that heads were solved from; 0 if trained heads answer."""
    floor: Accuracy | None = None
    """Accuracy of the bare backbone with a solved head; None if there is no such head."""
    trained: dict[str, Accuracy] = field(default_factory=dict)
    """Accuracy of each strategy with trained heads; empty if no solved head is in force."""
    damaged_statistics: list[DamagedStatistic] = field(default_factory=list)
    """Statistics that should have counted and were damaged; heads were solved without them."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self) -> str:
        return json.dumps(self.to_json(), indent=1) + "\n"

    @classmethod
    def read(cls, text: str) -> Evaluation:
        """Read the content of `evaluation.json`, also of older versions; a damaged one is an error."""
        told = json.loads(text)
        cells = [[Accuracy(**cell) for cell in curve] for curve in told.pop("sequences")]
        served = {name: Accuracy(**cell) for name, cell in told.pop("strategies").items()}
        ahead = [ExpectedAccuracy(**one) for one in told.pop("expected", [])]
        floor = told.pop("floor", None)
        trained = {name: Accuracy(**cell) for name, cell in told.pop("trained", {}).items()}
        damaged = [DamagedStatistic(**one) for one in told.pop("damaged_statistics", [])]
        return cls(
            sequences=cells,
            strategies=served,
            expected=ahead,
            floor=None if floor is None else Accuracy(**floor),
            trained=trained,
            damaged_statistics=damaged,
            **told,
        )

    def with_trained_heads(self) -> dict[str, Accuracy]:
        """Return the accuracy of each strategy with trained heads; empty if no solved head is in force.

        `merged` is among them, as the mean of trained heads is all that it has while a module is live.
        """
        merged = {name: cell for name, cell in self.strategies.items() if name == MERGED and self.trained}
        return self.trained | merged

    def expected_after(self, requests: int) -> ExpectedAccuracy | None:
        """Return what to expect after so many further requests; None if that was not computed."""
        return self.expected[requests - 1] if requests <= len(self.expected) else None

    def better_than(self, served: str) -> BetterStrategy | None:
        """Return the strategy that is clearly better than the one in use; None if none is."""
        return StrategyScores(self.strategies, self.only_right).better_than(served)


def chance_of_gain(gained: int, lost: int) -> float:
    """Return the chance of a difference at least so large if both were equally good (McNemar, two-sided)."""
    total = gained + lost

    def chance(count: int) -> float:
        return exp(lgamma(total + 1) - lgamma(count + 1) - lgamma(total - count + 1) - total * log(2))

    return min(1.0, 2 * sum(map(chance, range(min(gained, lost) + 1))))


def score(
    strategy: str, predicted: Mapping[Prefix, Floats], prefixes: Iterable[Prefix], labels: Sequence[int]
) -> Accuracy | None:
    """Return a strategy's accuracy if these are the sequences' live prefixes; None if all are empty.

    `merged` is scored as AllSeq, which it approximates: its own answer needs the modules themselves. Solved
    heads are in force if `predicted` has the bare backbone, whose prefix is empty.
    """
    chosen = choices(strategy, predicted, prefixes)
    return Accuracy.of(mix_known(predicted, chosen), labels) if chosen else None


def choices(strategy: str, predicted: Mapping[Prefix, Floats], prefixes: Iterable[Prefix]) -> list[Choice]:
    """Return the chains that serve with their weights: those of solved heads if the bare backbone has one."""
    return choose_solved(strategy, prefixes) if () in predicted else choose(strategy, prefixes)


def scored_as(strategy: str) -> str:
    """Return the strategy whose accuracy can be told from probabilities: AllSeq in place of `merged`.

    `merged` averages the same modules, and would need a merge for each state that is looked at.
    """
    return "all" if strategy == MERGED else strategy


def strategy_answers(
    predicted: Mapping[Prefix, Floats], prefixes: Sequence[Prefix]
) -> dict[str, NDArray[np.float64]]:
    """Return the class probabilities that each strategy gives; `merged` is not among them."""
    if not any(prefixes) and () not in predicted:
        return {}
    return {name: mix_known(predicted, choices(name, predicted, prefixes)) for name in STRATEGIES}


def evaluation_of(
    position: int,
    predicted: Mapping[Prefix, Floats],
    prefixes: Sequence[Prefix],
    labels: Sequence[int],
    merged: Floats | None = None,
    trained: Mapping[Prefix, Floats] | None = None,
    solved_from: int = 0,
) -> Evaluation:
    """Return the evaluation from the probabilities under every live prefix, and under `merged`.

    If solved heads are in force, `trained` has the probabilities under trained ones.
    """
    answers: dict[str, Floats] = {**strategy_answers(predicted, prefixes)}
    trained_answers = strategy_answers(trained, prefixes) if trained is not None else {}
    agreed = None
    if merged is not None:
        # Its head is a mean of trained ones, so it stands for AllSeq with those.
        agreed = agreement(merged, (trained_answers or answers)["all"])
        answers[MERGED] = merged
    elif () in predicted and not any(prefixes):
        answers[MERGED] = predicted[()]  # there is nothing to merge, and the bare backbone answers
    curves = [
        [Accuracy.of(predicted[prefix[:depth]], labels) for depth in range(1, len(prefix) + 1)]
        for prefix in prefixes
    ]
    scores = StrategyScores.of(answers, labels)
    return Evaluation(
        position,
        len(labels),
        curves,
        scores.strategies,
        agreed,
        only_right=scores.only_right,
        solved_from=solved_from,
        floor=Accuracy.of(predicted[()], labels) if () in predicted else None,
        trained={name: Accuracy.of(found, labels) for name, found in trained_answers.items()},
    )
