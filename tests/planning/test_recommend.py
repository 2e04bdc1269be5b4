"""The search for a setting, on few candidates: within the cost, up to the target, honest if it is not."""

import re
from functools import partial

import numpy as np
import pytest

from fedsgt.errors import InputError
from fedsgt.planning import recommend as module
from fedsgt.planning.planner import PlanScore, score_plan
from fedsgt.planning.recommend import LIMITS, Limits, Recommendation, recommend
from fedsgt.planning.stream import Counts, Stream
from fedsgt.plans import kinds, make, rotations
from fedsgt.plans.tree.search import tree

CLIENTS = 6


@pytest.fixture(autouse=True)
def _few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUPS", (3, 5))
    monkeypatch.setattr(module, "SLICES", (1, 2, 5))
    monkeypatch.setattr(module, "SCREENING", 0.005)
    monkeypatch.setattr(kinds, "tree", partial(tree, effort=0.01))


def group(method: str, slices: int, groups: int, limits: Limits = None) -> Counts:
    """Dealt at random, or each client's slices side by side; with limits in as many groups at most."""
    total = CLIENTS * slices
    cut = np.arange(total) * groups // total
    if isinstance(limits, int):
        one, _ = np.divmod(np.arange(total), slices)
        dealt = (one + np.arange(total) % slices % limits) % groups
    else:
        dealt = cut if method == "affinity" else np.random.default_rng(0).permutation(cut)
    counts = np.zeros((CLIENTS, groups), dtype=np.int64)
    np.add.at(counts, (np.repeat(np.arange(CLIENTS), slices), dealt), 1)
    return counts


def groups_joined(method: str, slices: int, groups: int) -> float:
    return float((group(method, slices, groups) > 0).sum(axis=1).mean())


def setting(stream: Stream) -> PlanScore:
    return score_plan(rotations(5, 3), group("random", 5, 5), stream)


def advice(stream: Stream, max_passes: float = 12, target: float = 0.9) -> Recommendation:
    return recommend(setting(stream), CLIENTS, group, max_passes, target)


def all_forecasts(stream: Stream, max_passes: float) -> list[PlanScore]:
    """Every plan that `make` gives, on every grouping tried."""
    return [
        score_plan(make(kind, groups, passes=limit), group(method, slices, groups), stream)
        for groups in (3, 5)
        for slices in (1, 2, 5)
        if 2 * groups <= CLIENTS * slices
        for method in ("random", "affinity")
        for kind in ("rotations", "greedy", "tree")
        for limit in (max_passes, None)
        if make(kind, groups, passes=limit).passes <= max_passes
    ]


@pytest.mark.parametrize("max_passes", [2.0, 3.0, 5.5, 12.0, 40.0])
def test_it_keeps_within_the_passes(max_passes: float) -> None:
    assert advice(Stream(4), max_passes).best.score.plan.passes <= max_passes


def test_it_meets_a_target_within_reach() -> None:
    found = advice(Stream(4), 12, 0.9)
    assert found.meets_target
    assert found.best.survival >= 0.9


def test_a_higher_target_is_paid_for_in_live_data() -> None:
    easy, hard = advice(Stream(4), 4, 0.5).best, advice(Stream(4), 4, 0.9).best
    assert 0.5 <= easy.survival < 0.9 <= hard.survival
    assert easy.score.mean_live_share > hard.score.mean_live_share


def test_of_those_that_meet_the_target_it_keeps_most_data_live() -> None:
    stream = Stream(5)
    found = advice(stream, 12, 0.8)
    enough = [scored for scored in all_forecasts(stream, 12) if scored.curves.alive[-1] >= 0.8]
    best = max(scored.mean_live_share for scored in enough)
    assert found.best.score.mean_live_share == pytest.approx(best, abs=0.002)


def test_of_equals_it_takes_the_cheaper() -> None:
    found = advice(Stream(1), 40, 0.5)
    equal = [
        scored
        for scored in all_forecasts(Stream(1), 40)
        if round(scored.mean_live_share, 3) == round(found.best.score.mean_live_share, 3)
    ]
    assert found.best.score.plan.passes <= min(scored.plan.passes for scored in equal) + 1e-9


def test_it_comes_closest_to_a_target_out_of_reach_and_says_so() -> None:
    stream = Stream(30)
    found = advice(stream, 12, 0.9)
    assert not found.meets_target
    assert found.best.survival == pytest.approx(
        max(scored.curves.alive[-1] for scored in all_forecasts(stream, 12)), abs=0.001
    )
    assert "None of the" in found.reason()
    assert "reaches a survival of 0.9" in found.reason()


@pytest.mark.parametrize(
    ("stream", "target"), [(Stream(4), 0.9), (Stream(30), 0.9), (Stream(3, 3), 0.5), (Stream(0), 0.99)]
)
def test_the_reason_is_two_sentences(stream: Stream, target: float) -> None:
    reason = advice(stream, 12, target).reason()
    assert "\n" not in reason
    assert len(re.findall(r"\.(?: |$)", reason)) == 2
    assert reason.endswith(".")
    assert reason.startswith("Take ")


def test_the_reason_names_the_setting_and_its_figures() -> None:
    found = advice(Stream(4))
    best = found.best
    assert best.label in found.reason()
    assert f"probability {best.survival:.2f}" in found.reason()
    assert f"for {best.score.plan.passes:g} passes" in found.reason()
    assert f"against {found.given.curves.alive[-1]:.2f}" in found.reason()
    assert f"of the {found.searched} settings within 12 passes" in found.reason()


def test_affinity_comes_with_its_warning() -> None:
    found = advice(Stream(3, 3), 12, 0.5)
    assert found.best.method == "affinity"
    assert "check accuracy" in found.reason()


def test_whole_clients_call_for_clients_in_few_groups() -> None:
    best = advice(Stream(3, 3), 12, 0.5).best
    assert groups_joined(best.method, best.slices, best.score.plan.groups) < 1.5
    assert groups_joined("random", 5, 5) > 3


def test_more_slices_lose_when_whole_clients_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "METHODS", ("random",))
    assert advice(Stream(2, 2), 12, 0.5).best.slices == 1


def test_the_plan_is_the_one_that_a_run_would_train() -> None:
    best = advice(Stream(4)).best
    assert best.score.plan == make(best.kind, best.score.plan.groups, passes=best.passes)


def test_every_group_mixes_at_least_two_slices() -> None:
    tried: list[tuple[int, int]] = []

    def watched(method: str, slices: int, groups: int, limits: Limits) -> Counts:
        tried.append((slices, groups))
        return group(method, slices, groups)

    recommend(setting(Stream(4)), CLIENTS, watched, 12)
    assert set(tried) == {(1, 3), (2, 3), (5, 3), (2, 5), (5, 5)}


def test_groupings_that_limits_forbid_are_left_out() -> None:
    def limited(method: str, slices: int, groups: int, limits: Limits) -> Counts:
        if slices > 1:
            raise InputError("client 0: no way")
        return group(method, slices, groups)

    found = recommend(setting(Stream(4)), CLIENTS, limited, 12)
    assert found.best.slices == 1
    assert found.searched < advice(Stream(4)).searched


def test_limits_that_forbid_everything_are_an_error() -> None:
    def forbidden(method: str, slices: int, groups: int, limits: Limits) -> Counts:
        raise InputError("client 0: no way")

    with pytest.raises(InputError, match=r"^clients: no setting searched can group 6 clients"):
        recommend(setting(Stream(4)), CLIENTS, forbidden, 12)


def test_progress_rises_from_nothing_to_done() -> None:
    seen: list[float] = []
    recommend(setting(Stream(2)), CLIENTS, group, 12, progress=seen.append)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 1)


@pytest.mark.parametrize("target", [0.0, 1.0, -0.5, 90, float("nan")])
def test_a_target_that_is_no_probability_is_refused(target: float) -> None:
    with pytest.raises(InputError, match=r"^target: .* is not a probability above 0 and below 1$"):
        advice(Stream(2), 12, target)


@pytest.mark.parametrize("max_passes", [1.9, -3.0, float("nan")])
def test_too_few_passes_are_refused(max_passes: float) -> None:
    with pytest.raises(InputError, match=r"^max passes: .* is too little; the smallest plan takes 2$"):
        advice(Stream(2), max_passes)


def test_a_setting_that_nothing_beats_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUPS", (3,))
    good = score_plan(make("greedy", 8), group("random", 5, 8), Stream(6))
    found = recommend(good, CLIENTS, group, good.plan.passes)
    assert found.keep_given
    assert found.reason().startswith("Keep the setting given: ")
    assert found.reason().count(". ") == 1
    dearer = recommend(good, CLIENTS, group, good.plan.passes - 1)
    assert not dearer.keep_given  # it costs more than may be spent


def test_a_setting_that_something_beats_is_not_kept() -> None:
    assert not advice(Stream(6), 12).keep_given


@pytest.mark.parametrize("company", [1, 2])
def test_no_group_is_one_clients_alone_if_that_is_asked_for(company: int) -> None:
    def own_group(method: str, slices: int, groups: int, limits: Limits) -> Counts:
        counts = group(method, slices, groups)
        if method == "affinity":
            counts[1:, 1] += counts[1:, 0]
            counts[1:, 0] = 0
        return counts

    found = recommend(setting(Stream(3, 3)), CLIENTS, own_group, 12, 0.5, company=company)
    assert found.best.method == ("affinity" if company == 1 else "random")
    assert found.searched <= advice(Stream(3, 3)).searched / company


def test_the_reason_says_how_many_whole_clients_are_withstood() -> None:
    found = advice(Stream(4))
    rate = found.best.score.deletion_rate_clients
    assert f"and no module is live after about {rate:.1f} of 6 clients left whole" in found.reason()


def test_limits_are_tried_where_whole_clients_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "METHODS", ("random",))
    monkeypatch.setattr(module, "SLICES", (5,))
    free = advice(Stream(3, 3), 12, 0.5)
    found = recommend(setting(Stream(3, 3)), CLIENTS, group, 12, 0.5, limits=LIMITS)
    assert (free.best.limits, found.best.limits) == (None, 1)
    assert found.searched == 3 * free.searched
    assert found.best.score.deletion_rate_clients > free.best.score.deletion_rate_clients
    assert "5 slices a client, in at most 1 group, " in found.reason()


def test_limits_that_change_nothing_are_left_out() -> None:
    one = recommend(setting(Stream(3, 3)), CLIENTS, group, 12, 0.5, limits=(None,))
    assert (
        recommend(setting(Stream(3, 3)), CLIENTS, group, 12, 0.5, limits=(None, 5)).searched == one.searched
    )
