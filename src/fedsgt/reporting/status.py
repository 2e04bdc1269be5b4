"""What is live of a run, and what becomes of it if requests go on: numbers only, nothing is changed."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from fedsgt.ledger.kinds import SERVING_CHANGED
from fedsgt.plans.plan import Prefix
from fedsgt.reporting.forecast import (
    FARTHEST,
    SAFE,
    FragileGroup,
    SurvivalForecast,
    forecast_survival,
    fragile_groups,
    request_chances,
)
from fedsgt.reporting.history import History, LiveCounts, count_live, history
from fedsgt.runs.artefacts import EVALUATION
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.unlearning.retrain import due

State = Literal["live", "new", "dead", "untrained"]


@dataclass(frozen=True)
class Policy:
    """When the run's configuration wants it trained again."""

    retrain: str
    threshold: float | None
    due: bool | None
    """None if that depends on an accuracy which nobody has measured since the last request."""
    reason: str | None


@dataclass(frozen=True)
class RunStatus:
    """A run at one version of its ledger, its past and its future."""

    position: int
    groups: int
    modules: int
    """That the plan wants."""
    sequences: list[Prefix]
    prefixes: list[Prefix]
    """The live part of each sequence."""
    dead_groups: frozenset[int]
    """Hit since the modules were trained."""
    new_groups: frozenset[int]
    """Trained again after a deletion, or added by a client that came back."""
    live_counts: LiveCounts
    past: History = field(repr=False)
    forecast: SurvivalForecast
    fragile: list[FragileGroup]
    """The live groups, the one whose loss takes most first."""
    policy: Policy

    @property
    def exhausted(self) -> bool:
        return not self.live_counts.modules

    @property
    def begun(self) -> bool:
        """Whether anything was ever trained, as far as is known."""
        return bool(self.live_counts.modules or self.dead_groups or self.past.requests)

    @cached_property
    def live_nodes(self) -> frozenset[Prefix]:
        return frozenset(prefix[:depth] for prefix in self.prefixes for depth in range(1, len(prefix) + 1))

    def state(self, prefix: Prefix) -> State:
        """Of the module of this prefix; `new` is live too, but was not there from the beginning."""
        if not self.dead_groups.isdisjoint(prefix):
            return "dead"
        if prefix not in self.live_nodes:
            return "untrained"
        return "live" if self.new_groups.isdisjoint(prefix) else "new"

    def advice(self) -> str:
        """When to retrain, in a sentence."""
        forecast = self.forecast
        if not self.begun:
            return "Nothing is trained yet: train the run."
        if self.exhausted:
            return "Retrain now: nothing is live, so nothing can be served."
        if self.policy.due:
            return f"Retrain now, as the run's policy asks: {self.policy.reason}."
        at = forecast.unsafe_at
        if at is None:
            when = f"the chance of still serving stays at {SAFE:.0%} or more for {FARTHEST} further requests"
        else:
            further = "the next request" if at == 1 else f"{at} further requests"
            when = f"the chance of still serving is below {SAFE:.0%} after {further}"
        if self.live_counts.modules == self.modules:
            return f"Nothing to retrain: every module is live; {when}."
        if at is None:
            return f"No need to retrain for being able to serve: {when}."
        before = "the next request" if at == 1 else f"request {at} from now"
        return f"Retrain before {before}: {when}."

    def to_json(self) -> dict[str, Any]:
        """For programs; null stands for infinite or unknown."""
        ahead = self.forecast
        return {
            "position": self.position,
            "exhausted": self.exhausted,
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
            "forecast": {
                "alive": [float(value) for value in ahead.alive],
                "alive_stderr": [value.stderr for value in ahead.alive],
                "live_groups": [float(value) for value in ahead.live_groups],
                "live_groups_stderr": [value.stderr for value in ahead.live_groups],
                "requests_left": ahead.requests_left if math.isfinite(ahead.requests_left) else None,
                "unsafe_at": ahead.unsafe_at,
            },
            "fragile": [asdict(group) for group in self.fragile],
            "policy": asdict(self.policy),
            "advice": self.advice(),
        }


def run_status(folder: RunFolder, requests: int = 10) -> RunStatus:
    """Of the run as it is now."""
    live = folder.live()
    present = folder.present()
    description = live.description
    prefixes, odds = live.prefixes(present), request_chances(live)
    entries = [entry for entry in folder.ledger.entries() if entry.position <= live.position]
    return RunStatus(
        position=live.position,
        groups=description.groups,
        modules=len(description.modules),
        sequences=[tuple(order) for order in description.sequences],
        prefixes=prefixes,
        dead_groups=live.dead,
        new_groups=_new_groups(live, folder.config.grouping.groups),
        live_counts=count_live(prefixes),
        past=history(live, entries, present),
        forecast=forecast_survival(prefixes, odds, requests),
        fragile=fragile_groups(prefixes, odds),
        policy=_policy(folder, live),
    )


def _new_groups(live: Live, at_first: int) -> frozenset[int]:
    made = live.description.as_of
    before = (request for request in live.requests if request.position <= made)
    again = {group for request in before for group in request.body["groups"]}
    return frozenset(again | set(range(at_first, live.description.groups)))


def _policy(folder: RunFolder, live: Live) -> Policy:
    settings = folder.config.unlearning

    def accuracy() -> float:
        found = current_evaluation(folder, live)
        if found is None:
            raise LookupError
        return float(found["strategies"][folder.config.serving.strategy]["accuracy"])

    try:
        reason = due(folder, live, accuracy)
    except LookupError:
        return Policy(settings.retrain, settings.threshold, None, "not evaluated since the last request")
    return Policy(settings.retrain, settings.threshold, reason is not None, reason)


def current_evaluation(folder: RunFolder, live: Live) -> dict[str, Any] | None:
    """What `evaluation.json` says, if nothing has died or was trained since it was made."""
    changed = (entry for entry in folder.ledger.entries() if entry.kind in SERVING_CHANGED)
    last = max((entry.position for entry in changed if entry.position <= live.position), default=0)
    try:
        found = json.loads((folder.path / EVALUATION).read_text(encoding="utf-8"))
        return found if last <= found["position"] <= live.position else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
