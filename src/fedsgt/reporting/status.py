"""Status of a run: its live modules, its past requests, and how long it will still serve."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from fedsgt.plans.plan import Prefix
from fedsgt.reporting.advice import (
    Advice,
    Urgency,
    advise_on_accuracy,
    advise_on_heads,
    advise_on_survival,
    advise_without_a_plan,
    advise_without_modules,
)
from fedsgt.reporting.forecast import (
    FragileGroup,
    SurvivalForecast,
    forecast_survival,
    fragile_groups,
)
from fedsgt.reporting.heads import HeadsStatus, a_record_is_left, heads_status
from fedsgt.reporting.history import History, LiveCounts, count_live, history
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import RunHealth, module_health
from fedsgt.runs.records_left import request_chances
from fedsgt.runs.state import Live
from fedsgt.serving.accuracy import Accuracy, BetterStrategy, Evaluation, ExpectedAccuracy
from fedsgt.serving.evaluation import current_evaluation
from fedsgt.unlearning.recovery import PendingWork, pending_work
from fedsgt.unlearning.retrain import due
from fedsgt.words import counted

State = Literal["live", "new", "cut off", "dead", "untrained", "missing", "damaged", "not destroyed"]
"""State of a module: its verdict (`runs.health`), or one of two that tell live modules apart.

"new" was trained again or added later; "cut off" stands on a module that is not live, so it is not served.
"""


@dataclass(frozen=True)
class RetrainPolicy:
    """The run's policy for training again, and whether it asks for that now."""

    retrain: str
    threshold: float | None
    due: bool | None
    """Whether training is due; None if that depends on an accuracy not measured since the last request."""
    reason: str | None
    """Why training is due, or why that is not known."""


@dataclass(frozen=True)
class RunStatus:
    """State of a run at one version of its ledger: live modules, past requests, and forecast."""

    position: int
    """Position of the ledger's last entry."""
    groups: int
    modules: int
    """Number of modules that the plan wants."""
    sequences: list[Prefix]
    prefixes: list[Prefix]
    """Live part of each sequence."""
    dead_groups: frozenset[int]
    """Groups hit by a deletion since the modules were trained."""
    new_groups: frozenset[int]
    """Groups trained again after a deletion, or added by a client that came back."""
    live_counts: LiveCounts
    past: History = field(repr=False)
    forecast: SurvivalForecast
    fragile: list[FragileGroup]
    """Live groups, those whose loss takes most modules first."""
    policy: RetrainPolicy
    strategy: str
    """Strategy in use."""
    evaluation: Evaluation | None = field(repr=False)
    """Accuracies of what is live now; None if they were not measured since the last change."""
    pending: list[PendingWork]
    """Destruction and certificates of requests in force that are not done yet."""
    health: RunHealth = field(repr=False)
    heads: HeadsStatus | None = None
    """Heads that are solved from statistics; None if the run's trained heads are to answer."""

    @property
    def exhausted(self) -> bool:
        """Whether nothing can be served: no module is live, and the bare backbone has no solved head."""
        return not self.live_counts.modules and not self.solved

    @property
    def why_exhausted(self) -> str | None:
        """Why nothing can be served, in words; None if something is."""
        if not self.exhausted:
            return None
        if self.modules:
            return "EXHAUSTED: no module is live" if self.begun else "no module is trained yet"
        if not a_record_is_left(self.health.live):
            return "EXHAUSTED: no record is left, nothing is served"
        return "nothing is served: the plan has no modules, and the bare backbone has no solved head"

    @property
    def solved(self) -> bool:
        """Whether solved heads answer, so that something is served as long as a record is left."""
        return self.heads is not None and self.heads.in_force

    @property
    def begun(self) -> bool:
        """Whether anything was ever trained, as far as the ledger tells."""
        return bool(self.live_counts.modules or self.dead_groups or self.past.requests or self.health.lost)

    @property
    def unfinished(self) -> bool:
        """Whether modules that no deletion has hit were never trained."""
        return not self.health.lost and (self.live_counts.modules or 0) < len(self.health.live.modules())

    @cached_property
    def live_modules(self) -> frozenset[Prefix]:
        """Prefixes of all live modules."""
        return frozenset(prefix[:depth] for prefix in self.prefixes for depth in range(1, len(prefix) + 1))

    def state(self, prefix: Prefix) -> State:
        """Return the state of the module of this prefix."""
        verdict = self.health.modules[self.health.live.description.keys[prefix]].verdict
        if verdict != "live":
            return verdict
        if prefix not in self.live_modules:
            return "cut off"
        return "live" if self.new_groups.isdisjoint(prefix) else "new"

    @property
    def accuracy(self) -> Accuracy | None:
        """Accuracy of what is served; None if it was not measured since the last change."""
        return None if self.evaluation is None else self.evaluation.strategies.get(self.strategy)

    @property
    def better_strategy(self) -> BetterStrategy | None:
        """Strategy that is clearly better than the one in use, on the same modules and test records."""
        return None if self.evaluation is None else self.evaluation.better_than(self.strategy)

    def expected_accuracy(self, requests: int) -> ExpectedAccuracy | None:
        """Return the accuracy to expect after so many further requests; None if it is not known."""
        return None if self.evaluation is None else self.evaluation.expected_after(requests)

    def advice(self) -> str:
        """Return one sentence of advice: whether and when to retrain."""
        return self._advice().words

    @property
    def urgency(self) -> Urgency:
        """How soon the advice is to be followed."""
        return self._advice().urgency

    def _advice(self) -> Advice:
        if not self.modules:
            return advise_without_a_plan(self.heads, a_record_is_left(self.health.live))
        if not self.begun:
            return Advice("now", "Nothing is trained yet: train the run.")
        if self.exhausted:
            return advise_without_modules(self.heads, a_record_is_left(self.health.live))
        lost = self.health.lost
        if lost or self.policy.due:
            asked = f", as the run's policy asks: {self.policy.reason}"
            why = f": {counted(len(lost), 'module')} missing or damaged" if lost else asked
            return Advice("now", f"Retrain now{why}.")
        return self._advice_while_serving()

    def _advice_while_serving(self) -> Advice:
        """Return advice while something answers, and the policy does not ask for training."""
        whole = self.live_counts.modules == self.modules
        labels = self.health.live.description.labels
        minded = advise_on_accuracy(self.evaluation, self.strategy, labels, whole)
        at = self.forecast.unsafe_at
        # A chance of being able to serve at all comes before the accuracy after the same request.
        if minded is not None and minded.urgency == "now":
            return minded
        # Statistics cost far less than training, so they come first, unless training itself makes them.
        if self.heads is not None and self.heads.lost:
            return advise_on_heads(self.heads, self.unfinished)
        if minded is not None and at != 1:
            return minded
        if not self.live_counts.modules:
            return advise_without_modules(self.heads, True)
        return advise_on_survival(at, whole, self.solved)

    def to_json(self) -> dict[str, Any]:
        """Return the status for programs; null stands for infinite or unknown."""
        ahead = self.forecast
        return {
            "position": self.position,
            "exhausted": self.exhausted,
            "problems": [module.to_json() for module in self.health.problems],
            "modules": {"live": self.live_counts.modules, "wanted": self.modules},
            "groups": {
                "longest_live": self.live_counts.groups,
                "all": self.groups,
                "dead": sorted(self.dead_groups),
            },
            "new_groups": sorted(self.new_groups),
            "sequences": [
                {"groups": list(order), "live": len(prefix)}
                for order, prefix in zip(self.sequences, self.prefixes, strict=True)
            ],
            "requests": [asdict(request) for request in self.past.requests],
            "heads": None if self.heads is None else self.heads.to_json(),
            "forecast": {
                "alive": [float(value) for value in ahead.alive],
                "alive_stderr": [value.stderr for value in ahead.alive],
                "some_module": [float(value) for value in ahead.some_module],
                "some_module_stderr": [value.stderr for value in ahead.some_module],
                "live_groups": [float(value) for value in ahead.live_groups],
                "live_groups_stderr": [value.stderr for value in ahead.live_groups],
                "requests_left": ahead.requests_left if math.isfinite(ahead.requests_left) else None,
                "until_no_module": ahead.until_no_module if math.isfinite(ahead.until_no_module) else None,
                "unsafe_at": ahead.unsafe_at,
            },
            "fragile": [asdict(group) for group in self.fragile],
            "policy": asdict(self.policy),
            **self._accuracy_json(),
            "advice": self.advice(),
            "urgency": self.urgency,
            "pending": [work._asdict() for work in self.pending],
        }

    def _accuracy_json(self) -> dict[str, Any]:
        served, better, found = self.accuracy, self.better_strategy, self.evaluation
        about = {"strategy": self.strategy, "test_records": found.records if found else None}
        return {
            "accuracy": None if served is None else {**asdict(served), **about},
            "expected_accuracy": [asdict(one) for one in found.expected] if found else [],
            "expected_strategy": found.expected_strategy if found else None,
            "better_strategy": None if better is None else asdict(better),
        }


def run_status(folder: RunFolder, requests: int = 10) -> RunStatus:
    """Return the status of the run now, with a forecast for so many further requests."""
    live = folder.live()
    health = module_health(folder, live)
    description, prefixes, chances = live.description, health.prefixes, request_chances(live)
    evaluation = current_evaluation(folder, live, prefixes)
    # A request may come meanwhile: everything is told as of the version that was read first.
    entries = [entry for entry in folder.ledger.entries() if entry.position <= live.position]
    heads = heads_status(folder, live, prefixes)
    return RunStatus(
        position=live.position,
        groups=description.groups,
        modules=len(description.modules),
        sequences=[tuple(order) for order in description.sequences],
        prefixes=prefixes,
        dead_groups=live.dead,
        new_groups=_new_groups(live, folder.config.grouping.groups),
        live_counts=count_live(prefixes),
        past=history(live, entries, health.whole, health.lost),
        forecast=forecast_survival(prefixes, chances, requests, heads is not None and heads.in_force),
        fragile=fragile_groups(prefixes, chances),
        policy=_policy(folder, health, evaluation),
        strategy=folder.config.serving.strategy,
        evaluation=evaluation,
        pending=pending_work(folder),
        health=health,
        heads=heads,
    )


def _new_groups(live: Live, at_first: int) -> frozenset[int]:
    """Return groups hit before the last training, and those beyond the number that the run began with."""
    made = live.description.as_of
    before = (request for request in live.requests if request.position <= made)
    again = {group for request in before for group in request.body["groups"]}
    return frozenset(again | set(range(at_first, live.description.groups)))


def _policy(folder: RunFolder, health: RunHealth, found: Evaluation | None) -> RetrainPolicy:
    settings = folder.config.unlearning

    def accuracy() -> float:
        if found is None:
            raise LookupError  # a status measures nothing itself
        return found.strategies[folder.config.serving.strategy].accuracy

    try:
        reason = due(folder, health.live, accuracy)
    except LookupError:
        return RetrainPolicy(
            settings.retrain, settings.threshold, None, "not evaluated since the last request"
        )
    return RetrainPolicy(settings.retrain, settings.threshold, reason is not None, reason)
