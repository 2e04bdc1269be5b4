"""Search groups, sequences, slices, plans and groupings for the setting that serves a stream best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from fedsgt.errors import InputError
from fedsgt.planning.planner import PlanScore, score_plan
from fedsgt.planning.purpose import fewest_clients
from fedsgt.planning.stream import Counts
from fedsgt.plans import Plan, make
from fedsgt.plans.scoring.whole_clients import whole_clients_words
from fedsgt.plans.tree.search import Progress, ignore, tree
from fedsgt.window import Window, groups_used, order_passes
from fedsgt.words import counted, counted_passes, counted_range

GROUPS = (3, 4, 5, 6, 8, 10, 12, 16)
SLICES = (1, 2, 3, 5, 10)
WINDOWS: tuple[Window, ...] = (None, 1, 2)
# Fewest slices in a group: a module of a group with one slice would show one client's data alone.
MIXED = 2
# About the share of the time that has passed when the best candidate is chosen, for the progress shown.
SCREENED = 0.7
# Effort of tree searches for candidates; only the plan of the chosen one is searched in full.
SCREENING = 0.1
# The other methods look at the data, which a planner does not have.
METHODS = ("random", "affinity")

# Most groups that a client may be in: one number for all clients, or one for each; None for no limit.
Limits: TypeAlias = int | list[int] | None
# Limits tried where whole clients leave, as each hits every group that it is in.
LIMITS: tuple[Limits, ...] = (None, 1, 2)
# Makes clients x groups from a method, slices of each client, a number of groups, and limits.
GroupSlices: TypeAlias = Callable[[str, int, int, Limits], Counts]


@dataclass(frozen=True)
class Candidate:
    """A setting and its score."""

    method: str
    slices: int
    limits: Limits
    kind: str
    passes: float | None
    """Limit on passes that the plan was made with, if any."""
    score: PlanScore

    @property
    def window(self) -> Window:
        """Window of the training."""
        return self.score.plan.window

    @property
    def survival(self) -> float:
        """Probability of service after the last request."""
        return float(self.score.curves.alive[-1])

    @property
    def label(self) -> str:
        """The setting in words."""
        plan = self.score.plan
        window = "no window" if plan.window is None else f"window {plan.window}"
        return (
            f"{counted(plan.groups, 'group')}, {counted(len(plan.sequences), 'sequence')}, "
            f"{counted(self.slices, 'slice')} a client,"
            f"{_limits_words(self.limits)} {self.kind} plan, {self.method} grouping, {window}"
        )


@dataclass(frozen=True)
class Recommendation:
    """The best setting found, beside the given one."""

    best: Candidate
    given: PlanScore
    target: float
    max_passes: float
    searched: int
    clients: int

    @property
    def meets_target(self) -> bool:
        """Whether the best setting survives with the wanted probability."""
        return self.best.survival >= self.target

    @property
    def keep_given(self) -> bool:
        """Whether no setting found is better than the given one."""
        affordable = self.given.plan.passes <= self.max_passes
        return affordable and rank(self.given, self.target) >= rank(self.best.score, self.target)

    def reason(self) -> str:
        """Give the reason for the recommendation in two sentences."""
        return self._why_keep() if self.keep_given else f"{self._why_take()} {self._trade_off()}"

    def _why_keep(self) -> str:
        """Say that nothing searched is better than the given setting."""
        given = self.given
        return (
            f"Keep the setting given: none of the {self.searched} searched within "
            f"{counted_passes(self.max_passes)} is better. It is alive after "
            f"{counted(given.stream.requests, 'request')} with probability"
            f" {given.curves.alive[-1]:.2f}, keeps {given.mean_live_share:.0%} of the data live"
            f" on average, and {whole_clients_words(given.deletion_rate_clients, self.clients)}."
        )

    def _why_take(self) -> str:
        """Compare the best setting with the given one."""
        best, requests = self.best, self.given.stream.requests
        served = f"it is alive after {counted(requests, 'request')} with probability {best.survival:.2f}"
        kept = f"keeps {best.score.mean_live_share:.0%} of the data live on average"
        given = (
            f"{self.given.curves.alive[-1]:.2f} and {self.given.mean_live_share:.0%} for the setting given"
        )
        passes = f"for {counted_passes(best.score.plan.passes)}"
        whole = whole_clients_words(best.score.deletion_rate_clients, self.clients)
        return f"Take {best.label}, {passes}: {served}, {kept}, against {given}, and {whole}."

    def _trade_off(self) -> str:
        """Return one sentence on the cost of the best setting, or that none reaches the target."""
        cost = f"of the {self.searched} settings within {counted_passes(self.max_passes)}"
        if not self.meets_target:
            short = f"None {cost} reaches a survival of {self.target:g}"
            return f"{short}; this one comes closest, so plan to retrain."
        first = f"It keeps most data live {cost} that survive with at least {self.target:g}"
        if self.best.window is not None:
            first += "; live data does not see that a window trains long sequences on fewer records an epoch"
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
    given: PlanScore,
    clients: int,
    group: GroupSlices,
    max_passes: float,
    target: float = 0.9,
    progress: Progress = ignore,
    windows: Sequence[Window] = (None,),
    company: int = 1,
    limits: Sequence[Limits] = (None,),
) -> Recommendation:
    """Return the setting that keeps most data live, among those that survive the stream within the cost.

    Plans are searched for each of the windows, and slices are grouped within each of the limits. Settings
    with fewer than `company` clients in some group are left out.
    """
    if not 0 < target < 1:
        raise InputError(f"target: {target:g} is not a probability above 0 and below 1")
    least = min(order_passes(GROUPS[0], window) for window in windows)
    if not max_passes >= least:
        raise InputError(f"max passes: {max_passes:g} is too little; the smallest plan takes {least:g}")

    def in_company(method: str, slices: int, groups: int, limit: Limits) -> Counts:
        counts = group(method, slices, groups, limit)
        if fewest_clients(counts) < company:
            raise InputError(f"clients: a group has fewer than {counted(company, 'client')}")
        return counts

    found = list(_candidates(given, clients, in_company, max_passes, progress, windows, limits))
    if not found:
        raise InputError(
            f"clients: no setting searched can group {counted(clients, 'client')} within their limits"
        )
    best = max(found, key=lambda candidate: rank(candidate.score, target))
    full = _made_fully(best, given, group, lambda share: progress(SCREENED + (1 - SCREENED) * share))
    progress(1.0)
    return Recommendation(full, given, target, max_passes, len(found), clients)


def rank(scored: PlanScore, target: float) -> tuple[bool, float, float, float]:
    """Rank a setting: survivors first, by live data, window and cost; others by how near they come."""
    survival, live = float(scored.curves.alive[-1]), scored.mean_live_share
    # The wider window wins between two that serve alike: long sequences then learn more in each epoch.
    width = groups_used(scored.plan.groups, scored.plan.window) / scored.plan.groups
    if survival >= target:
        # Rounded, so that a gain that nobody would notice does not outweigh a cheaper plan.
        return True, round(live, 3), width, -scored.plan.passes
    return False, round(survival, 3), live, width


def _made_fully(best: Candidate, given: PlanScore, group: GroupSlices, progress: Progress) -> Candidate:
    """Return the candidate with the plan that a run would train, searched in full."""
    groups = best.score.plan.groups
    plan = make(best.kind, groups, passes=best.passes, progress=progress, window=best.window)
    counts = group(best.method, best.slices, plan.groups, best.limits)
    scored = score_plan(plan, counts, given.stream, given.module_bytes, given.fedavg_rounds)
    return replace(best, score=scored)


def _candidates(
    given: PlanScore,
    clients: int,
    group: GroupSlices,
    max_passes: float,
    progress: Progress,
    windows: Sequence[Window],
    limits: Sequence[Limits],
) -> Iterator[Candidate]:
    """Yield every setting that can be grouped within the limits and afforded, scored."""
    most = clients * max(SLICES) // MIXED
    least = {size: min(order_passes(size, window) for window in windows) for size in GROUPS}
    sizes = [groups for groups in GROUPS if groups <= most and least[groups] <= max_passes]
    for index, groups in enumerate(sizes):
        # The time for a number of groups is taken to grow with its square.
        progress(SCREENED * sum(size**2 for size in sizes[:index]) / sum(size**2 for size in sizes))
        plans = [found for window in windows for found in _plans(groups, max_passes, window)]
        for slices in SLICES:
            if MIXED * groups > clients * slices:
                continue
            for method, limit in product(METHODS, limits):
                # A client of two slices is in two groups at most in any case.
                forbids = not isinstance(limit, int) or limit < slices or None not in limits
                counts = _grouped(group, method, slices, groups, limit) if forbids else None
                if counts is None:
                    continue
                for kind, passes, plan in plans:
                    scored = score_plan(plan, counts, given.stream, given.module_bytes, given.fedavg_rounds)
                    yield Candidate(method, slices, limit, kind, passes, scored)


def _grouped(group: GroupSlices, method: str, slices: int, groups: int, limits: Limits) -> Counts | None:
    """Return None if no grouping satisfies the clients' limits."""
    try:
        return group(method, slices, groups, limits)
    except InputError:
        return None


def _limits_words(limits: Limits) -> str:
    if limits is None:
        return ""
    if isinstance(limits, int):
        return f" in at most {counted(limits, 'group')},"
    return f" in at most {counted_range(min(limits), max(limits), 'group')},"


def _plans(groups: int, max_passes: float, window: Window) -> Iterator[tuple[str, float | None, Plan]]:
    """Yield kind, limit on passes and plan of each plan worth a look."""
    if order_passes(groups, window) > max_passes:
        return
    yield "rotations", max_passes, make("rotations", groups, passes=max_passes, window=window)
    yield "greedy", max_passes, make("greedy", groups, passes=max_passes, window=window)
    yield "tree", max_passes, tree(groups, passes=max_passes, effort=SCREENING, window=window)
    # The cheapest tree that is as good as all rotations, if it can be afforded.
    cheapest = tree(groups, effort=SCREENING, window=window)
    if cheapest.passes <= max_passes:
        yield "tree", None, cheapest
