"""The first look beyond the paper: what a stream takes away, and heads that are solved from what is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.beyond.answers import BITS, Answers, State
from experiments.beyond.features import Features
from experiments.beyond.shown import statistic_bytes
from experiments.harness.bench import Bench, Trained
from experiments.harness.pool import missing
from experiments.harness.requests import Request
from experiments.harness.results import Results
from experiments.harness.settings import load_settings
from fedsgt.serving.evaluation import evaluate
from fedsgt.stack.statistics import Statistic

TINY = ["grouping.groups=3", "data.clients=4", "data.limit=80", "data.test_limit=30"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    bench = Bench(tmp_path_factory.mktemp("beyond"))
    return bench.trained(bench.config("digits", 1, overrides=TINY, shared=False))


@pytest.fixture(scope="module")
def answers(run: Trained, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    found = Answers(Features(run.folder, tmp_path_factory.mktemp("features")))
    found.features.compute([(), *(module.prefix for module in run.plan.modules)])
    return found


def test_a_stream_takes_a_tenth_of_a_slice_or_a_whole_client(answers: Answers) -> None:
    rows = answers.features.train.rows
    before, one, both = answers.states([Request(0, (0,)), Request(1, (0, 1), whole=True)])
    assert before == State(frozenset(), ())
    assert one.dead == {answers.groups_of[0][0]}
    assert list(one.gone) == rows[0, 0][: max(1, len(rows[0, 0]) // 10)]
    assert sorted(both.gone[len(one.gone) :]) == sorted(rows[1, 0] + rows[1, 1])


def test_a_head_is_solved_from_the_retained_records_alone(answers: Answers) -> None:
    *_, state = answers.states([Request(0, (0,)), Request(1, (0, 1), whole=True)])
    known = answers.features.train
    left = np.setdiff1d(np.arange(len(known.labels)), state.gone)
    chosen = answers.features.chain((0,)).train[left]
    anew = Statistic.of(chosen, known.labels[left].tolist(), answers.labels, BITS)
    found = answers._retained(state, (0,))
    assert (found.gram.tobytes(), found.cross.tobytes()) == (anew.gram.tobytes(), anew.cross.tobytes())


def test_trained_heads_answer_as_they_do_when_serving(run: Trained, answers: Answers) -> None:
    nothing = State(frozenset(), ())
    served = evaluate(run.folder).strategies["all"]
    assert answers.accuracies(nothing)["trained"] == pytest.approx(served.accuracy, abs=0.04)


def test_without_a_live_module_trained_heads_guess_and_solved_ones_are_the_floor(answers: Answers) -> None:
    found = answers.accuracies(State(frozenset(range(3)), ()))
    assert found["trained"] == 1 / answers.labels
    assert found["solved"] == found["ridge"] > found["trained"]


def test_features_are_computed_once(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.beyond.features.Worker", None)
    again = Features(answers.features.folder, answers.features.place)
    again.compute([(), (0,)])
    assert (again.chain((0,)).test == answers.features.chain((0,)).test).all()


def test_a_cell_may_have_fewer_seeds_than_its_experiment(tmp_path: Path) -> None:
    settings = load_settings("beyond", tasks=["cifar10-96", "demo"])
    seeds = {(job.cell.about["task"], job.seed) for job in missing(settings, Results(tmp_path))}
    assert seeds == {("cifar10-96", 0), *(("demo", seed) for seed in range(5))}


def test_a_statistic_is_a_triangle_and_a_column_for_each_label() -> None:
    empty = Statistic.empty(7, 3, BITS)
    assert statistic_bytes(7, 3) == empty.gram.nbytes + empty.cross.nbytes
