"""A search over groups, sequences, slices, plans and groupings for the setting that serves a stream best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fedsgt.errors import InputError
from fedsgt.planning.planner import Forecast, forecast
from fedsgt.planning.stream import Counts
from fedsgt.plans import Plan, make
from fedsgt.plans.tree.search import Progress, ignore, tree

GROUPS = (3, 4, 5, 6, 8, 10, 12, 16)
SLICES = (1, 2, 3, 5, 10)
MIXED = 2  # slices of a group at the least: a group of one slice would show one client's data alone
SCREENED = 0.7  # of the time, more or less, when the choice is made
SCREENING = 0.1  # of the usual search, for all candidates but the one chosen
METHODS = ("random", "affinity")  # the others need embeddings of the data

GroupSlices = Callable[[str, int, int], Counts]  # method, slices a client, groups -> clients x groups


@dataclass(frozen=True)
class Candidate:
    """A setting with its forecast."""

    method: str
    slices: int
    kind: str
    passes: float | None  # the limit the plan was made with, if any
    forecast: Forecast

    @property
    def survival(self) -> float:
        return float(self.forecast.curves.alive[-1])

    @property
    def label(self) -> str:
        plan = self.forecast.plan
        return (
            f"L={plan.groups} groups, B={len(plan.sequences)} sequences, S={self.slices} slices a client,"
            f" {self.kind} plan, {self.method} grouping"
        )


@dataclass(frozen=True)
class Recommendation:
    best: Candidate
    given: Forecast
    target: float
    max_passes: float
    searched: int

    @property
    def meets_target(self) -> bool:
        return self.best.survival >= self.target

    @property
    def keep_given(self) -> bool:
        """Nothing found is better than what was there."""
        affordable = self.given.plan.passes <= self.max_passes
        return affordable and rank(self.given, self.target) >= rank(self.best.forecast, self.target)

    def reason(self) -> str:
        """Why, in two sentences."""
        return self._why_keep() if self.keep_given else f"{self._why_take()} {self._trade_off()}"

    def _why_keep(self) -> str:
        given = self.given
        return (
            f"Keep the setting given: none of the {self.searched} searched within {self.max_passes:g} passes"
            f" is better. It is alive after {given.stream.requests} requests with probability"
            f" {given.curves.alive[-1]:.2f} and keeps {given.mean_live_share:.0%} of the data live"
            " on average."
        )

    def _why_take(self) -> str:
        best, requests = self.best, self.given.stream.requests
        served = f"it is alive after {requests} requests with probability {best.survival:.2f}"
        kept = f"keeps {best.forecast.mean_live_share:.0%} of the data live on average"
        given = (
            f"{self.given.curves.alive[-1]:.2f} and {self.given.mean_live_share:.0%} for the setting given"
        )
        passes = f"for {best.forecast.plan.passes:g} passes"
        return f"Take {best.label}: {served} and {kept}, against {given}, {passes}."

    def _trade_off(self) -> str:
        cost = f"of the {self.searched} settings within {self.max_passes:g} passes"
        if not self.meets_target:
            short = f"None {cost} reaches a survival of {self.target:g}"
            return f"{short}; this one comes closest, so plan to retrain."
        first = f"It keeps most data live {cost} that survive with at least {self.target:g}"
        if self.best.method == "affinity":
            return (
                f"{first}; affinity grouping packs related clients together, so check accuracy if their data"
                " differ in kind."
            )
        return (
            f"{first}; more slices a client would spread whole-client requests over more groups, fewer would"
            " mix the data less."
        )


def recommend(
    given: Forecast,
    clients: int,
    group: GroupSlices,
    max_passes: float,
    target: float = 0.9,
    progress: Progress = ignore,
) -> Recommendation:
    """The setting with most live data over the stream, of those that survive it at no more than this cost."""
    if not 0 < target < 1:
        raise InputError(f"target: {target:g} is not a probability above 0 and below 1")
    if not max_passes >= (GROUPS[0] + 1) / 2:
        raise InputError(
            f"max passes: {max_passes:g} is too little; the smallest plan takes {(GROUPS[0] + 1) / 2:g}"
        )
    found = list(_candidates(given, clients, group, max_passes, progress))
    if not found:
        raise InputError(f"clients: no setting searched can group {clients} clients within their limits")
    best = max(found, key=lambda candidate: rank(candidate.forecast, target))
    full = _made_fully(best, given, group, lambda share: progress(SCREENED + (1 - SCREENED) * share))
    progress(1.0)
    return Recommendation(full, given, target, max_passes, len(found))


def rank(scored: Forecast, target: float) -> tuple[bool, float, float]:
    """Those that survive by their live data, then by cost; the others by how near they come."""
    survival, live = float(scored.curves.alive[-1]), scored.mean_live_share
    if survival >= target:
        return True, round(live, 3), -scored.plan.passes
    return False, round(survival, 3), live


def _made_fully(best: Candidate, given: Forecast, group: GroupSlices, progress: Progress) -> Candidate:
    """The candidate with its plan as `make` gives it, which is what a run would train."""
    plan = make(best.kind, best.forecast.plan.groups, passes=best.passes, progress=progress)
    counts = group(best.method, best.slices, plan.groups)
    scored = forecast(plan, counts, given.stream, given.module_bytes, given.fedavg_rounds)
    return replace(best, forecast=scored)


def _candidates(
    given: Forecast, clients: int, group: GroupSlices, max_passes: float, progress: Progress
) -> Iterator[Candidate]:
    most = clients * max(SLICES) // MIXED
    sizes = [groups for groups in GROUPS if groups <= most and (groups + 1) / 2 <= max_passes]
    for index, groups in enumerate(sizes):
        progress(SCREENED * sum(size**2 for size in sizes[:index]) / sum(size**2 for size in sizes))
        plans = list(_plans(groups, max_passes))
        for slices in SLICES:
            if MIXED * groups > clients * slices:
                continue
            for method in METHODS:
                counts = _grouped(group, method, slices, groups)
                if counts is None:
                    continue
                for kind, limit, plan in plans:
                    scored = forecast(plan, counts, given.stream, given.module_bytes, given.fedavg_rounds)
                    yield Candidate(method, slices, kind, limit, scored)


def _grouped(group: GroupSlices, method: str, slices: int, groups: int) -> Counts | None:
    """None where the clients' limits leave no way to group so."""
    try:
        return group(method, slices, groups)
    except InputError:
        return None


def _plans(groups: int, max_passes: float) -> Iterator[tuple[str, float | None, Plan]]:
    yield "rotations", max_passes, make("rotations", groups, passes=max_passes)
    yield "greedy", max_passes, make("greedy", groups, passes=max_passes)
    yield "tree", max_passes, tree(groups, passes=max_passes, effort=SCREENING)
    cheapest = tree(groups, effort=SCREENING)
    if cheapest.passes <= max_passes:
        yield "tree", None, cheapest
