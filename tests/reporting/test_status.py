"""The status of a run: what is live, what was live after each request, and what the run advises."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from paper_run import delete, describe, fill, paper_run

from fedsgt.plans import rotations
from fedsgt.reporting.history import LiveCounts
from fedsgt.reporting.status import run_status
from fedsgt.runs.folder import RunFolder
from fedsgt.serving.accuracy import Accuracy, Evaluation, ExpectedAccuracy

# Two branches below [0, 1], and one sequence beside them.
BRANCHED = [(0, 1, 2, 3), (0, 1, 3), (2, 3)]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Three rotations of three groups, all trained."""
    made = paper_run(tmp_path / "run", describe([(0, 1, 2), (2, 0, 1), (1, 2, 0)], [10, 20, 30]))
    fill(made)
    return made


def test_a_fresh_run(folder: RunFolder) -> None:
    found = run_status(folder, requests=4)
    assert (found.live_counts, found.modules, found.groups) == (LiveCounts(9, 3), 9, 3)
    assert (found.exhausted, found.begun, found.past.requests) == (False, True, [])
    assert {found.state(prefix) for prefix in found.live_modules} == {"live"}
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
    assert (found.state((0, 1)), found.state((0, 1, 3))) == ("missing", "cut off")
    assert found.live_counts == LiveCounts(3, 2)


def test_an_exhausted_run(folder: RunFolder) -> None:
    delete(folder, 0, 1, 2)
    found = run_status(folder)
    assert found.exhausted
    assert found.advice().startswith("Retrain now")
    assert [float(value) for value in found.forecast.alive] == [0] * 11


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


def measured(
    folder: RunFolder, served: Accuracy, ahead: Sequence[float] = (), **others: Accuracy
) -> Evaluation:
    """Write an evaluation of what is live, as `fedsgt evaluate` does, on 400 test records."""
    curves = [[served] * len(prefix) for prefix in folder.live().prefixes(folder.present())]
    strategies = {"all": served, **others}
    # As if the other strategies were right wherever this one is.
    more = {name: round(400 * (one.accuracy - served.accuracy)) for name, one in others.items()}
    only = {"all": dict.fromkeys(others, 0), **{name: {"all": count} for name, count in more.items()}}
    expected = [ExpectedAccuracy(count, value, 0.0, 1.0) for count, value in enumerate(ahead, start=1)]
    found = Evaluation(folder.ledger.head(), 400, curves, strategies, None, "test-0", only, "all", expected)
    (folder.path / "evaluation.json").write_text(found.to_text())
    return found


def near(accuracy: float) -> Accuracy:
    return Accuracy(accuracy, accuracy - 0.04, accuracy + 0.04)


@pytest.mark.parametrize(("accuracy", "due"), [(0.7, True), (0.95, False)])
def test_a_policy_by_accuracy_takes_what_was_measured(tmp_path: Path, accuracy: float, due: bool) -> None:
    settings = ("unlearning.retrain=below-accuracy", "unlearning.threshold=0.9")
    folder = paper_run(tmp_path / "run", describe([(0, 1), (1, 0)], [1, 1]), *settings)
    fill(folder)
    delete(folder, 0)
    measured(folder, near(accuracy))
    assert run_status(folder).policy.due is due


def test_advice_names_the_request_before_which_to_retrain(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe(rotations(6).sequences, [5] * 6))
    fill(folder, lambda prefix: len(prefix) < 6)
    assert run_status(folder).advice() == (
        "Retrain before request 8 from now: the chance of still serving is below 90% after 8 further "
        "requests."
    )


@pytest.mark.parametrize(
    ("served", "ahead", "urgency", "words"),
    [
        # Two labels, so guessing gives 50 %.
        (near(0.56), [0.5], "now", "Retrain now: accuracy is 56.0% (2 labels; guessing gives 50.0%)."),
        (Accuracy(0.56, 0.3, 0.8), [0.5], "soon", "Retrain before the next request: "),
        (near(0.9), [0.84], "soon", "Retrain before the next request: accuracy is expected to fall from "),
        (near(0.9), [0.86], "soon", "Retrain before request 3 from now: the chance of still serving"),
        (near(0.9), [], "soon", "Retrain before request 3 from now: the chance of still serving"),
    ],
)
def test_advice_minds_accuracy(
    tmp_path: Path, served: Accuracy, ahead: list[float], urgency: str, words: str
) -> None:
    folder = paper_run(tmp_path / "run", describe(rotations(4).sequences, [5] * 4))
    fill(folder)
    delete(folder, 1)
    measured(folder, served, ahead)
    found = run_status(folder)
    assert found.advice().startswith(words)
    assert found.urgency == urgency


def test_being_able_to_serve_comes_before_accuracy(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0, 1), (1, 0)], [5, 5]))
    fill(folder)
    delete(folder, 0)
    measured(folder, near(0.9), [0.6])
    assert "the chance of still serving is below 90% after the next request" in run_status(folder).advice()
    measured(folder, near(0.52))
    assert run_status(folder).advice().startswith("Retrain now: accuracy is 52.0%")


def test_if_every_module_is_live_retraining_is_no_remedy(folder: RunFolder) -> None:
    measured(folder, near(0.9), [0.5])
    assert run_status(folder).advice().startswith("Nothing to retrain")
    assert run_status(folder).urgency == "none"
    measured(folder, near(0.52))
    found = run_status(folder)
    assert found.advice().startswith("Every module is live, but accuracy is 52.0%")
    assert found.urgency == "now"


def test_accuracies_are_told_with_what_to_expect(folder: RunFolder) -> None:
    assert run_status(folder).to_json()["accuracy"] is None
    written = measured(folder, near(0.48), [0.45, 0.4], long=near(0.635), min=near(0.49))
    found = run_status(folder)
    assert (found.accuracy, found.expected_accuracy(2)) == (near(0.48), written.expected[1])
    assert found.expected_accuracy(3) is None
    assert found.better_strategy is not None
    assert found.better_strategy.strategy == "long"
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert told["accuracy"] == {**asdict(near(0.48)), "strategy": "all", "test_records": 400}
    assert [one["accuracy"] for one in told["expected_accuracy"]] == [0.45, 0.4]
    assert told["better_strategy"]["accuracy"] == 0.635
    assert (told["urgency"], told["expected_strategy"]) == ("now", "all")


def test_a_strategy_that_was_not_scored_is_not_known(tmp_path: Path) -> None:
    settings = ("serving.strategy=merged", "unlearning.retrain=below-accuracy", "unlearning.threshold=0.9")
    folder = paper_run(tmp_path / "run", describe([(0, 1), (1, 0)], [1, 1]), *settings)
    fill(folder)
    delete(folder, 0)
    measured(folder, near(0.8))
    found = run_status(folder)
    assert (found.accuracy, found.better_strategy, found.policy.due) == (None, None, None)


def test_the_json_is_json(folder: RunFolder) -> None:
    delete(folder, 2)
    found = json.loads(json.dumps(run_status(folder, 3).to_json(), allow_nan=False))
    assert found["modules"] == {"live": 3, "wanted": 9}
    assert found["groups"] == {"longest_live": 2, "all": 3, "dead": [2]}
    assert found["sequences"][0] == {"groups": [0, 1, 2], "live": 2}
    assert len(found["forecast"]["alive"]) == 4
    assert found["requests"][0]["after"] == {"modules": 3, "groups": 2}
    assert [part["client"] for part in found["requests"][0]["parts"]] == ["client-2"]


def test_infinity_is_null_in_json(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0,), (1,)], [0, 5]))
    fill(folder)
    assert (
        json.loads(json.dumps(run_status(folder).to_json(), allow_nan=False))["forecast"]["requests_left"]
        is None
    )


def test_a_plan_without_modules_asks_for_no_training(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([], [10, 20]), "plan.kind=none")
    status = run_status(folder)
    assert (status.modules, status.live_counts.modules, status.forecast.requests_left) == (0, 0, 0)
    assert (status.urgency, status.advice()) == (
        "now",
        "Nothing can be served: the plan has no modules, and no head is solved.",
    )
    assert status.why_exhausted is not None
    assert status.why_exhausted.startswith("nothing is served: the plan has no modules")
