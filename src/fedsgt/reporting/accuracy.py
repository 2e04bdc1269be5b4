"""Accuracy around a deletion: what was known before it, what is served after it, and what was expected.

Nothing here is needed for a deletion. Errors therefore count as "not known", so that they change neither
its answer nor its exit code. Figures of before are told once and not kept: they were made from data that is
deleted now.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedsgt.reporting.advice import FALL, Advice, advise_on_accuracy
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import module_health
from fedsgt.serving.accuracy import Accuracy, BetterStrategy, Evaluation
from fedsgt.serving.evaluation import current_evaluation, rescore


@dataclass(frozen=True)
class KnownAccuracy:
    """What the last evaluation says, if it is about what is live now."""

    position: int | None = None
    """Ledger position of the evaluation; None if there is none."""
    served: Accuracy | None = None
    """Accuracy of the strategy in use."""
    expected: float | None = None
    """Accuracy to expect after one more request, if something is live then."""


@dataclass(frozen=True)
class AccuracyChange:
    """Accuracy of what is served after a deletion, beside what was known before it."""

    strategy: str
    """Strategy in use, whose accuracies these are."""
    now: Accuracy | None = None
    """Accuracy now; None if it is not known."""
    before: Accuracy | None = None
    """Accuracy before the deletion; None if it was not known."""
    expected: float | None = None
    """Accuracy that was expected after one more request that hits one group; None if it was not known."""
    test_records: int | None = None
    """Number of test records that `now` was measured on."""
    better: BetterStrategy | None = None
    """Strategy that is clearly better with what is live now."""
    advice: Advice | None = None
    """Advice for the sake of accuracy."""

    @property
    def fall(self) -> float:
        """Return by how much accuracy fell with this deletion; 0 if it rose, or is not known."""
        if self.now is None or self.before is None:
            return 0.0
        return max(0.0, self.before.accuracy - self.now.accuracy)

    @property
    def fell_far(self) -> bool:
        """Whether accuracy fell so far that somebody should know first."""
        return self.fall > FALL

    def to_json(self) -> dict[str, Any]:
        """Return the change for programs; null stands for what is not known."""
        return asdict(self)


def known_accuracy(folder: RunFolder) -> KnownAccuracy:
    """Return what `evaluation.json` says of what is live now; to be asked before a deletion. Never raises."""
    try:
        found = current_evaluation(folder, folder.live())
        if found is None:
            return KnownAccuracy()
        strategy, ahead = folder.config.serving.strategy, found.expected_after(1)
        # AllSeq stands in for merged in what is expected, and is not what will be served.
        expected = None if ahead is None or found.expected_strategy != strategy else ahead.accuracy
        return KnownAccuracy(found.position, found.strategies.get(strategy), expected)
    except Exception:
        return KnownAccuracy()


def accuracy_after(
    folder: RunFolder, before: KnownAccuracy | None = None, patient: bool = False
) -> AccuracyChange:
    """Score what a completed deletion has left, from kept probabilities, and tell the change. Never raises.

    `before` is what `known_accuracy` returned before the request was accepted. With `patient`, solving heads
    may take longer than the answer to a deletion should wait.
    """
    strategy = folder.config.serving.strategy
    try:
        found = rescore(folder, patient)
        return _change(folder, found, before or KnownAccuracy(), strategy)
    except Exception:
        return AccuracyChange(strategy)


def _change(
    folder: RunFolder, found: Evaluation | None, before: KnownAccuracy, strategy: str
) -> AccuracyChange:
    # A repeated request changes nothing, so there is no before.
    if found is not None and found.position == before.position:
        before = KnownAccuracy()
    if found is None:
        return AccuracyChange(strategy, None, before.served, before.expected)
    live = folder.live()
    whole = len(module_health(folder, live, tensors=False).whole) == len(live.description.modules)
    return AccuracyChange(
        strategy,
        found.strategies.get(strategy),
        before.served,
        before.expected,
        found.records,
        found.better_than(strategy),
        advise_on_accuracy(found, strategy, live.description.labels, whole),
    )
