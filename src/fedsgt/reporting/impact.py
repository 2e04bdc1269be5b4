"""Preview of a deletion request: the modules that would die, and those that would still serve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedsgt.plans.plan import Prefix
from fedsgt.reporting.forecast import forecast_survival
from fedsgt.reporting.heads import a_record_is_left, solved_heads_answer
from fedsgt.reporting.history import LiveCounts, count_live
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import ModuleHealth, module_health
from fedsgt.runs.records import load_test
from fedsgt.runs.records_left import records_left, request_chances
from fedsgt.runs.state import Live
from fedsgt.serving.accuracy import Accuracy, BetterStrategy, StrategyScores, scored_as, strategy_answers
from fedsgt.serving.evaluation import probabilities_of_test_records
from fedsgt.unlearning.changes import Changes, planned_changes
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import preview

Prefixes = list[Prefix]
Scored = tuple[Accuracy | None, BetterStrategy | None]


@dataclass(frozen=True)
class ServingState:
    """Serving ability of the run, before or after the request."""

    live_counts: LiveCounts
    sequences: int
    """Number of sequences that have a live module."""
    requests_left: float
    """Expected number of requests, up to and with the one that leaves nothing; infinite with solved heads."""
    accuracy: Accuracy | None = None
    """Accuracy on the test records; None if nothing is served or it is not known."""
    better: BetterStrategy | None = None
    """Strategy that is clearly better than the one in use, on the same modules and test records."""
    solved: bool = False
    """Whether solved heads answer, so that the bare backbone does as long as a record is left."""

    @property
    def exhausted(self) -> bool:
        """Whether nothing is served."""
        return not self.live_counts.modules and not self.solved

    def to_json(self) -> dict[str, Any]:
        """Return the state for programs; null stands for infinite or unknown."""
        left = self.requests_left
        return {
            "live_modules": self.live_counts.modules,
            "live_groups": self.live_counts.groups,
            "live_sequences": self.sequences,
            "requests_left": left if math.isfinite(left) else None,
            "solved_heads": self.solved,
            "exhausted": self.exhausted,
            "accuracy": None if self.accuracy is None else self.accuracy.accuracy,
            "accuracy_interval": None if self.accuracy is None else [self.accuracy.low, self.accuracy.high],
            "better_strategy": None if self.better is None else asdict(self.better),
        }


@dataclass(frozen=True)
class Impact:
    """Effects of a request: data deleted, modules destroyed, and the state of serving before and after."""

    records: int
    """Number of records that would be deleted."""
    groups: list[int]
    """Groups that would be hit."""
    dying: Prefixes
    """Prefixes of the modules that would die."""
    before: ServingState
    after: ServingState
    changes: Changes
    """Whose records go, and which files change."""
    problems: tuple[ModuleHealth, ...] = ()
    """Modules that are missing, damaged or not destroyed, whatever the request does."""
    strategy: str = "all"
    """Strategy whose accuracies these are: the one in use, but AllSeq in place of `merged`."""
    plan_has_modules: bool = True
    """Whether the plan has modules at all."""

    def to_json(self) -> dict[str, Any]:
        """Return the preview for programs."""
        return {
            "dry_run": True,
            "problems": [module.to_json() for module in self.problems],
            "records": self.records,
            "groups": self.groups,
            **self.changes.to_json(),
            "modules_dying": [list(prefix) for prefix in self.dying],
            "strategy": self.strategy,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
        }


def impact(
    folder: RunFolder,
    deletions: Sequence[Deletion],
    accuracy: bool,
    progress: Callable[[float], None] = lambda share: None,
) -> Impact:
    """Preview the deletions, and change nothing.

    Accuracies need torch, and a forward pass of each live prefix that was not evaluated before. The accuracy
    after the request is an expected one where heads are solved: see `_heads_then`.
    """
    now, then, body = preview(folder, deletions)
    health = module_health(folder, now)
    before, after = health.prefixes, then.prefixes(health.whole)
    strategy = scored_as(folder.config.serving.strategy)
    scores: list[Scored] = [(None, None), (None, None)]
    if accuracy:
        states = [(now, before), (_heads_then(now, then), after)]
        scores = _accuracies(folder, now, states, strategy, progress)
    solved = solved_heads_answer(folder, now)
    solved_then = solved and a_record_is_left(then)
    if solved and not solved_then:  # the heads as they are now would still have a score
        scores[1] = None, None
    # The plan may want modules that were never trained: those cannot die. Damaged ones can.
    trained = {tuple(health.modules[key].entry.groups) for key in health.whole | health.damaged}
    return Impact(
        sum(part["count"] for part in body["parts"]),
        body["groups"],
        sorted(now.dying(body["groups"]) & trained),
        _state(now, before, scores[0], solved),
        _state(then, after, scores[1], solved_then),
        planned_changes(folder, then, body),
        health.problems,
        strategy,
        bool(now.description.modules),
    )


def _state(live: Live, prefixes: Prefixes, scored: Scored, solved: bool) -> ServingState:
    left = forecast_survival(prefixes, request_chances(live), 0, solved).requests_left
    return ServingState(count_live(prefixes), sum(map(bool, prefixes)), left, *scored, solved)


def _heads_then(now: Live, then: Live) -> Live:
    """Return the state whose heads are nearest to those after the request.

    Of clients that lose more than half of their records the statistics are left out; those of others are
    taken as they are now, as what the deleted records added to them is not known.
    """

    def keeps_most(number: int) -> bool:
        return 2 * sum(records_left(then, number)) >= sum(records_left(now, number))

    deleted = {number: gone for number, gone in then.deleted.items() if not keeps_most(number)}
    return replace(then, deleted={**now.deleted, **deleted})


def _accuracies(
    folder: RunFolder,
    live: Live,
    before_and_after: list[tuple[Live, Prefixes]],
    strategy: str,
    progress: Callable[[float], None],
) -> list[Scored]:
    """Return accuracy and better strategy with each of these sets of live prefixes; None without torch."""
    # The prefixes of both states are scored at once, as most are the same before and after.
    wanted = sorted({prefix for _, prefixes in before_and_after for prefix in prefixes if prefix})
    labels = load_test(folder.config, folder.description.labels).labels
    try:
        found = [
            StrategyScores.of(
                strategy_answers(probabilities_of_test_records(folder, live, wanted, progress, state), left),
                labels,
            )
            for state, left in before_and_after
        ]
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return [(None, None), (None, None)]  # not all of it is kept: a preview without accuracies
    served = folder.config.serving.strategy
    return [(one.strategies.get(strategy), one.better_than(served)) for one in found]
