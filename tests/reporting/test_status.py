"""The status of a run: what is live, what was, and what further requests leave, against counting by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from paper_run import delete, describe, fill, paper_run, rebuild

from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry
from fedsgt.plans import Plan, live_prefix, rotations
from fedsgt.reporting import forecast as numbers
from fedsgt.reporting.forecast import expected_accuracy, forecast_survival, fragile_groups, request_chances
from fedsgt.reporting.history import LiveCounts
from fedsgt.reporting.status import current_evaluation, run_status
from fedsgt.reporting.tree_rows import Row, rows
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live

# Two branches below [0, 1], and one sequence beside them.
BRANCHED = [(0, 1, 2, 3), (0, 1, 3), (2, 3)]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Three rotations of three groups, all trained."""
    made = paper_run(tmp_path / "run", describe([(0, 1, 2), (2, 0, 1), (1, 2, 0)], [10, 20, 30]))
    fill(made)
    return made


def even(groups: int) -> np.ndarray:
    return np.full(groups, 1 / groups)


def request(position: int, groups: Sequence[int], **part: object) -> Entry:
    body = {"parts": [part] if part else [], "groups": list(groups), "modules_died": 0}
    return Entry(position, Kind.REQUEST, "", body, "", "")


# --- the tree


def test_each_module_is_drawn_once_and_branches_hang_below() -> None:
    assert rows(BRANCHED) == [
        Row(0, (0, 1, 2, 3), 0, (True, False, True, False)),
        Row(1, (0, 1, 3), 2, (True, False, False)),
        Row(2, (2, 3), 0, (False, False)),
    ]


def test_branches_stay_together_and_repeated_or_contained_sequences_have_no_row() -> None:
    found = rows([(0, 1), (2,), (0, 2), (0, 1), (0, 1, 3), (0,)])
    assert [(row.sequence, row.path, row.start) for row in found] == [
        (4, (0, 1, 3), 0),
        (2, (0, 2), 1),
        (1, (2,), 0),
    ]


# --- chances


def test_a_request_is_as_likely_as_there_are_records_left() -> None:
    description = describe([(0, 1, 2)], [10, 20, 30])
    assert request_chances(Live(description, 1, ())) == pytest.approx([20 / 120, 40 / 120, 60 / 120])
    slice_gone = request(2, [2], number=2, scope="slice", slices=[0], records=[], counts=[30], count=30)
    assert request_chances(Live(description, 2, (slice_gone,))) == pytest.approx([20 / 90, 40 / 90, 30 / 90])
    some_gone = request(
        2, [0], number=0, scope="records", slices=[0, 1], records=["a"] * 8, counts=[3, 5], count=8
    )
    assert request_chances(Live(description, 2, (some_gone,))) == pytest.approx(
        [12 / 112, 40 / 112, 60 / 112]
    )


def test_records_that_the_description_already_lacks_are_not_taken_off_again() -> None:
    description = describe([(0, 1)], [10, 10], as_of=2)
    old = request(2, [0], number=0, scope="records", slices=[0], records=["a"] * 5, counts=[5], count=5)
    assert request_chances(Live(description, 2, (old,))) == pytest.approx([0.5, 0.5])


def test_with_no_record_left_anywhere_all_groups_are_alike() -> None:
    assert request_chances(Live(describe([(0, 1)], [0, 0]), 1, ())).tolist() == [0.5, 0.5]


# --- forecast


def by_hand(prefixes: Sequence[tuple[int, ...]], odds: np.ndarray, requests: int) -> tuple[float, float]:
    """P(alive) and E[live groups] over every stream of so many requests."""
    alive = live = 0.0
    for stream in product(range(len(odds)), repeat=requests):
        chance = math.prod(odds[group] for group in stream)
        longest = max(len(live_prefix(prefix, stream)) for prefix in prefixes)
        alive, live = alive + chance * (longest > 0), live + chance * longest
    return alive, live


@pytest.mark.parametrize("prefixes", [BRANCHED, [(1, 2), (), (3,)], [(0,), (0, 3)], [(4, 0, 1, 2, 3)]])
def test_the_forecast_is_the_mean_over_all_streams(prefixes: list[tuple[int, ...]]) -> None:
    odds = np.array([0.1, 0.3, 0.05, 0.25, 0.3])
    found = forecast_survival(prefixes, odds, 4)
    for count in range(5):
        alive, live = by_hand(prefixes, odds, count)
        assert found.alive[count] == pytest.approx(alive)
        assert found.live_groups[count] == pytest.approx(live)
        assert found.alive[count].exact
        assert found.live_groups[count].exact


def test_the_rotations_of_the_paper() -> None:
    found = forecast_survival(rotations(6).sequences, even(6), 10)
    assert found.requests_left == pytest.approx(14.7)  # L H_L
    assert found.unsafe_at == 8
    assert (
        forecast_survival(rotations(10).sequences, even(10), 1).unsafe_at == 17
    )  # SPEC: the availability row


def test_the_unsafe_moment_is_found_however_far_the_forecast_goes() -> None:
    near, far = (forecast_survival(rotations(6).sequences, even(6), count) for count in (1, 40))
    assert near.unsafe_at == far.unsafe_at == 8
    assert (len(near.alive), len(far.live_groups)) == (2, 41)
    assert far.alive[8] < 0.9 <= far.alive[7]


def test_more_groups_than_can_be_scored_exactly_are_estimated() -> None:
    paths = rotations(24).sequences
    odds = np.random.default_rng(3).dirichlet(np.ones(24))
    found = forecast_survival(paths, odds, 3)
    expected = Plan.of("rotations", 24, paths).expected_live(range(4), odds)
    for ours, other in zip(found.live_groups[1:], expected[1:], strict=True):
        assert 0 < ours.stderr < 0.2
        assert abs(ours - other) < 5 * math.hypot(ours.stderr, other.stderr)
    assert float(found.live_groups[0]) == 24
    assert found.live_groups[0].exact


def test_live_groups_that_are_few_are_scored_exactly_among_many() -> None:
    found = forecast_survival([(30, 31), (60,)], even(100), 2)
    alive, live = by_hand([(0, 1), (2,)], np.array([0.01, 0.01, 0.01, 0.97]), 2)
    assert found.alive[2] == pytest.approx(alive)
    assert found.live_groups[2] == pytest.approx(live)
    assert found.live_groups[2].exact


def test_nothing_live_has_no_future() -> None:
    found = forecast_survival([(), ()], even(3), 2)
    assert [*map(float, found.alive), *map(float, found.live_groups)] == [0] * 6
    assert (found.requests_left, found.unsafe_at) == (0, 0)


def test_a_first_group_that_no_request_can_hit_serves_for_ever() -> None:
    found = forecast_survival([(0, 1), (2,)], np.array([0.0, 0.5, 0.5]), 3)
    assert math.isinf(found.requests_left)
    assert found.unsafe_at is None
    assert [float(value) for value in found.alive] == [1] * 4


def test_the_most_fragile_group_comes_first() -> None:
    found = fragile_groups(BRANCHED, np.array([0.1, 0.2, 0.3, 0.4]))
    told = [(one.group, one.modules, one.live_groups, one.chance) for one in found]
    assert told == [(0, 5, 2, 0.1), (1, 4, 2, 0.2), (2, 4, 3, 0.3), (3, 3, 3, 0.4)]
    assert fragile_groups([(), ()], even(2)) == []


# --- accuracy ahead


def test_expected_accuracy_is_that_of_what_is_left_if_anything_is() -> None:
    prefixes, odds = [(0, 1), (1,)], np.array([0.25, 0.75])
    scores: dict[tuple[tuple[int, ...], ...], float | None] = {
        ((), (1,)): 0.8,
        ((0,), ()): 0.5,
        ((), ()): None,
    }
    found = expected_accuracy(prefixes, odds, 2, lambda left: scores[left])
    first, second = found
    assert first is not None
    assert second is not None
    assert abs(first - (0.25 * 0.8 + 0.75 * 0.5)) < 5 * first.stderr
    both_hit_one = 0.75**2, 0.25**2
    expected = (both_hit_one[0] * 0.5 + both_hit_one[1] * 0.8) / sum(both_hit_one)
    assert abs(second - expected) < 5 * second.stderr


def test_no_accuracy_is_expected_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "TRIALS", 3)
    assert expected_accuracy([(0,)], np.array([1.0]), 2, lambda left: None) == [None, None]


# --- a run


def test_a_fresh_run(folder: RunFolder) -> None:
    found = run_status(folder, requests=4)
    assert (found.live_counts, found.modules, found.groups) == (LiveCounts(9, 3), 9, 3)
    assert (found.exhausted, found.begun, found.past.requests) == (False, True, [])
    assert {found.state(prefix) for prefix in found.live_nodes} == {"live"}
    assert found.advice().startswith("Nothing to retrain")
    assert len(found.forecast.alive) == 5


def test_a_run_that_is_not_trained_is_not_exhausted(tmp_path: Path) -> None:
    found = run_status(paper_run(tmp_path / "run", describe([(0, 1)], [1, 1])))
    assert (found.exhausted, found.begun) == (True, False)
    assert found.state((0, 1)) == "untrained"
    assert "train the run" in found.advice()


def test_what_a_request_leaves(folder: RunFolder) -> None:
    delete(folder, 2)
    found = run_status(folder)
    assert found.prefixes == [(0, 1), (), (1,)]
    assert found.live_counts == LiveCounts(3, 2)
    assert {prefix: found.state(prefix) for prefix in [(0, 1), (0, 1, 2), (2,), (1,)]} == {
        (0, 1): "live",
        (0, 1, 2): "dead",
        (2,): "dead",
        (1,): "live",
    }
    (served,) = found.past.requests
    assert (served.groups, served.modules_died, served.complete, served.after) == (
        [2],
        6,
        True,
        LiveCounts(3, 2),
    )
    assert served.deleted == "1 slice (30 records)"
    assert [(step.requests, step.live_counts) for step in found.past.steps] == [
        (0, LiveCounts(9, 3)),
        (1, LiveCounts(3, 2)),
        (1, LiveCounts(3, 2)),
    ]


def test_modules_that_are_missing_end_a_live_prefix(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe(BRANCHED, [5, 5, 5, 5]))
    fill(folder, lambda prefix: prefix != (0, 1))  # what stands on it is there, and of no use
    found = run_status(folder)
    assert found.prefixes == [(0,), (0,), (2, 3)]
    assert (found.state((0, 1)), found.state((0, 1, 3))) == ("untrained", "untrained")
    assert found.live_counts == LiveCounts(3, 2)


def test_after_retraining_the_past_is_what_the_ledger_counted(folder: RunFolder) -> None:
    delete(folder, 2)
    delete(folder, 0, 1, index=0)
    rebuild(folder)
    delete(folder, 1, index=1)
    found = run_status(folder)
    assert [request.after for request in found.past.requests] == [
        LiveCounts(3, None),
        LiveCounts(0, None),
        LiveCounts(3, 2),
    ]
    assert [(step.requests, step.trained, step.live_counts.modules) for step in found.past.steps] == [
        (0, True, 9),
        (1, False, 3),
        (2, False, 0),
        (2, True, 9),
        (3, False, 3),
        (3, False, 3),
    ]
    assert found.new_groups == {0, 1, 2}
    assert (found.state((2, 0)), found.state((1,))) == ("new", "dead")


def test_modules_that_were_never_trained_did_not_die_in_the_past(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0, 1, 2)], [5, 5, 5]))
    fill(folder, lambda prefix: len(prefix) < 3)
    delete(folder, 1)
    rebuild(folder)
    (served,) = run_status(folder).past.requests
    assert (served.modules_died, served.after.modules) == (2, 1)


def test_an_exhausted_run(folder: RunFolder) -> None:
    delete(folder, 0, 1, 2)
    found = run_status(folder)
    assert found.exhausted
    assert found.advice().startswith("Retrain now")
    assert [float(value) for value in found.forecast.alive] == [0] * 11


def test_a_request_that_is_not_finished_says_so(folder: RunFolder) -> None:
    part = {
        "number": 0,
        "client": "",
        "scope": "slice",
        "slices": [0],
        "records": [],
        "counts": [10],
        "count": 10,
    }
    with folder.ledger.writing() as writer:
        writer.append(Kind.REQUEST, {"parts": [part], "groups": [0], "modules_died": 6})
    (served,) = run_status(folder).past.requests
    assert not served.complete
    assert served.after == LiveCounts(3, 2)


def test_requests_in_words(folder: RunFolder) -> None:
    parts = [
        {
            "number": 0,
            "client": "",
            "scope": "client",
            "slices": [0, 1],
            "records": [],
            "counts": [10, 10],
            "count": 20,
        },
        {
            "number": 1,
            "client": "",
            "scope": "records",
            "slices": [0],
            "records": ["a"],
            "counts": [1],
            "count": 1,
        },
        {
            "number": 2,
            "client": "",
            "scope": "slice",
            "slices": [0, 1],
            "records": [],
            "counts": [30, 30],
            "count": 60,
        },
    ]
    with folder.ledger.writing() as writer:
        writer.append(Kind.REQUEST, {"parts": parts, "groups": [0, 1, 2], "modules_died": 9})
    (served,) = run_status(folder).past.requests
    assert served.deleted == "1 record, 2 slices (60 records), 1 whole client (20 records)"


@pytest.mark.parametrize(
    ("policy", "due"),
    [
        (("never",), False),
        (("when-exhausted",), False),
        (("below-modules", "3"), False),
        (("below-modules", "4"), True),
        (("below-accuracy", "0.9"), None),
        (("now",), True),
    ],
)
def test_the_policy_says_whether_retraining_is_due(
    tmp_path: Path, policy: tuple[str, ...], due: bool | None
) -> None:
    settings = [f"unlearning.retrain={policy[0]}", *(f"unlearning.threshold={value}" for value in policy[1:])]
    folder = paper_run(tmp_path / "run", describe([(0, 1, 2), (2, 0, 1), (1, 2, 0)], [1, 1, 1]), *settings)
    fill(folder)
    delete(folder, 2)
    found = run_status(folder)
    assert found.policy.due is due
    assert (found.advice() == f"Retrain now, as the run's policy asks: {found.policy.reason}.") is (
        due is True
    )


def measured(folder: RunFolder, position: int, accuracy: float = 0.7) -> None:
    text = json.dumps({"position": position, "strategies": {"all": {"accuracy": accuracy}}})
    (folder.path / "evaluation.json").write_text(text)


@pytest.mark.parametrize(("accuracy", "due"), [(0.7, True), (0.95, False)])
def test_a_policy_by_accuracy_takes_what_was_measured(tmp_path: Path, accuracy: float, due: bool) -> None:
    settings = ("unlearning.retrain=below-accuracy", "unlearning.threshold=0.9")
    folder = paper_run(tmp_path / "run", describe([(0, 1), (1, 0)], [1, 1]), *settings)
    fill(folder)
    delete(folder, 0)
    measured(folder, folder.ledger.head(), accuracy)
    assert run_status(folder).policy.due is due


def test_an_evaluation_is_current_until_something_dies_or_is_trained(folder: RunFolder) -> None:
    assert current_evaluation(folder, folder.live()) is None
    measured(folder, folder.ledger.head())
    assert current_evaluation(folder, folder.live()) is not None
    fill(folder)
    assert current_evaluation(folder, folder.live()) is None
    measured(folder, folder.ledger.head())
    with folder.ledger.writing() as writer:
        writer.append(Kind.REQUEST, {"parts": [], "groups": [0], "modules_died": 6})
    assert current_evaluation(folder, folder.live()) is None
    measured(folder, folder.ledger.head() + 1)
    assert current_evaluation(folder, folder.live()) is None
    (folder.path / "evaluation.json").write_text("[")
    assert current_evaluation(folder, folder.live()) is None


def test_advice_names_the_request_before_which_to_retrain(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe(rotations(6).sequences, [5] * 6))
    fill(folder, lambda prefix: len(prefix) < 6)
    assert run_status(folder).advice() == (
        "Retrain before request 8 from now: the chance of still serving is below 90% after 8 further "
        "requests."
    )


def test_the_json_is_json(folder: RunFolder) -> None:
    delete(folder, 2)
    found = json.loads(json.dumps(run_status(folder, 3).to_json(), allow_nan=False))
    assert found["modules"] == {"live": 3, "wanted": 9}
    assert found["groups"] == {"longest_live": 2, "all": 3, "dead": [2]}
    assert found["sequences"][0] == {"groups": [0, 1, 2], "live": 2}
    assert len(found["forecast"]["alive"]) == 4
    assert found["requests"][0]["after"] == {"modules": 3, "groups": 2}


def test_infinity_is_null_in_json(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0,), (1,)], [0, 5]))
    fill(folder)
    assert (
        json.loads(json.dumps(run_status(folder).to_json(), allow_nan=False))["forecast"]["requests_left"]
        is None
    )
