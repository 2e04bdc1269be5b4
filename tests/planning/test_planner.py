"""The score of one setting: the paper's figures, costs, traffic, and a JSON that holds them all."""

import json
import math

import numpy as np
import pytest

from fedsgt import theory
from fedsgt.errors import InputError
from fedsgt.planning.planner import PlanScore, score_plan
from fedsgt.planning.stream import Counts, Stream
from fedsgt.plans import Plan, make, rotations

KEYS = {
    "plan": {"kind", "groups", "sequences", "modules", "roots"},
    "stream": {"requests", "whole_clients"},
    "cost": {"passes", "fedavg_passes", "fedretrain_passes", "break_even_requests"},
    "per_client": {"rounds", "least_rounds", "most_rounds", "upload_bytes", "download_bytes"},
}
CURVES = {"survival", "survival_stderr", "live_groups", "live_groups_stderr", "live_share"}
NUMBERS = {
    "mean_live_share",
    "deletion_rate",
    "deletion_rate_clients",
    "deletion_rate_clients_stderr",
    "storage_bytes",
}


def random_counts(clients: int, slices: int, groups: int, seed: int = 0) -> Counts:
    counts = np.zeros((clients, groups), dtype=np.int64)
    dealt = np.random.default_rng(seed).permutation(np.arange(clients * slices) % groups)
    np.add.at(counts, (np.repeat(np.arange(clients), slices), dealt), 1)
    return counts


@pytest.fixture(scope="module")
def paper() -> PlanScore:
    """N = 10, S = 5, L = B = 10."""
    return score_plan(rotations(10), random_counts(10, 5, 10), Stream(30))


def test_the_papers_setting(paper: PlanScore) -> None:
    assert paper.plan.passes == 55
    assert len(paper.plan.modules) == 100
    assert paper.deletion_rate == pytest.approx(29.29, abs=0.005)
    assert 4 < paper.deletion_rate_clients < 6
    assert paper.fedretrain_passes == 310


def test_the_papers_curves(paper: PlanScore) -> None:
    expected = [float(theory.expected_live(10, count)) for count in range(31)]
    assert paper.curves.live == pytest.approx(expected)
    assert paper.live_share == pytest.approx([groups / 10 for groups in expected])
    assert paper.mean_live_share == pytest.approx(sum(expected[1:]) / 300)
    assert paper.curves.alive[16] >= 0.9 > paper.curves.alive[17]
    assert paper.curves.alive[26] >= 0.5 > paper.curves.alive[27]


def test_json_is_serialisable_and_holds_the_documented_keys(paper: PlanScore) -> None:
    result = json.loads(json.dumps(paper.to_json(), allow_nan=False))
    assert set(result) == set(KEYS) | CURVES | NUMBERS
    for part, keys in KEYS.items():
        assert set(result[part]) == keys
    assert all(len(result[curve]) == 31 for curve in CURVES)


def test_json_says_what_the_forecast_says(paper: PlanScore) -> None:
    result = paper.to_json()
    assert result["plan"]["sequences"] == [list(path) for path in rotations(10).sequences]
    assert result["cost"]["passes"] == 55
    assert result["survival"] == paper.curves.alive
    assert result["survival_stderr"] == [0.0] * 31
    assert result["storage_bytes"] == 100 * 2_400_000
    assert result["stream"] == {"requests": 30, "whole_clients": 0}


@pytest.mark.parametrize("kind", ["matching", "greedy", "iterative-rotations"])
def test_json_of_every_kind_is_serialisable(kind: str) -> None:
    scored = score_plan(make(kind, 5), random_counts(4, 3, 5), Stream(6, 2, (0.4, 0.3, 0.2, 0.1)))
    result = json.loads(json.dumps(scored.to_json(), allow_nan=False))
    assert result["live_groups_stderr"][-1] > 0


def test_a_module_goes_both_ways_each_round_and_frozen_ones_come_down_once() -> None:
    plan, counts = make("greedy", 5, 4), random_counts(4, 3, 5)
    scored = score_plan(plan, counts, Stream(3), module_bytes=100)
    rounds, fetched = plan.client_rounds(counts), plan.client_downloads(counts)
    assert scored.traffic.rounds == rounds.mean()
    assert (scored.traffic.least_rounds, scored.traffic.most_rounds) == (rounds.min(), rounds.max())
    per_client = scored.to_json()["per_client"]
    assert per_client["upload_bytes"] == 100 * rounds.mean()
    assert per_client["download_bytes"] == 100 * (rounds + fetched).mean()


@pytest.mark.parametrize("rounds", [1, 3, 5, 7, 10, 11, 55, 56, 100])
@pytest.mark.parametrize("plan", [rotations(10), rotations(3), Plan.of("mine", 3, [(0, 1, 2), (1, 2)])])
def test_break_even_is_the_first_request_that_makes_retraining_dearer(plan: Plan, rounds: int) -> None:
    scored = score_plan(plan, np.ones((2, plan.groups), dtype=np.int64), Stream(0), fedavg_rounds=rounds)
    first = next(request for request in range(1000) if rounds * (1 + request) > plan.passes)
    assert scored.break_even == first


def test_costs_that_divide_evenly_break_even_one_request_later() -> None:
    counts = np.ones((2, 10), dtype=np.int64)
    assert score_plan(rotations(10), counts, Stream(0), fedavg_rounds=11).break_even == 5
    assert score_plan(rotations(10), counts, Stream(0), fedavg_rounds=10).break_even == 5
    assert score_plan(rotations(10), counts, Stream(0), fedavg_rounds=55).break_even == 1
    assert score_plan(rotations(10), counts, Stream(0), fedavg_rounds=56).break_even == 0


def test_before_any_request_all_data_is_live() -> None:
    assert score_plan(rotations(4), random_counts(4, 2, 4), Stream(0)).mean_live_share == 1


def test_whole_clients_have_their_own_rate() -> None:
    rates = [
        score_plan(rotations(10), random_counts(10, 2, 10, seed), Stream(10, 1)).deletion_rate_clients
        for seed in range(60)
    ]
    found = [rate for rate in rates if rate is not None]
    expected = float(theory.deletion_rate_clients(10, 2, 10, 10))
    assert len(found) == 60
    assert abs(np.mean(found) - expected) < 5 * np.std(found) / math.sqrt(60)


def test_a_prior_weighs_the_clients() -> None:
    counts: Counts = np.eye(3, dtype=np.int64)
    prior = (0.5, 0.25, 0.25)
    scored = score_plan(rotations(3), counts, Stream(4, prior=prior))
    assert scored.deletion_rate == pytest.approx(float(theory.deletion_rate_weighted(prior, range(3))))


def test_a_service_that_never_ends_has_no_rate_in_json() -> None:
    counts: Counts = np.eye(3, dtype=np.int64)
    scored = score_plan(rotations(3), counts, Stream(4, 1, (0.5, 0.5, 0.0)))
    assert scored.deletion_rate == math.inf
    assert scored.deletion_rate_clients == math.inf
    result = json.loads(json.dumps(scored.to_json(), allow_nan=False))
    assert result["deletion_rate"] is None
    assert result["deletion_rate_clients"] is None


def test_a_client_who_never_asks_may_still_share_the_roots() -> None:
    counts: Counts = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    scored = score_plan(rotations(3), counts, Stream(4, 1, (0.5, 0.5, 0.0)))
    assert scored.deletion_rate_clients == pytest.approx(2)


def test_a_prior_of_other_clients_is_refused() -> None:
    with pytest.raises(InputError, match=r"^prior: 2 values for 4 clients"):
        score_plan(rotations(4), random_counts(4, 2, 4), Stream(3, prior=(0.5, 0.5)))
