"""The harness: curves are of what the service would do, and results are neither lost nor mixed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tiny_world import Quiet

from experiments.__main__ import main
from experiments.harness.bench import Bench
from experiments.harness.deleting import Deleting
from experiments.harness.pages import write_index
from experiments.harness.pool import cells_of, missing
from experiments.harness.report import verdict
from experiments.harness.requests import KINDS, Request, deaths, streams
from experiments.harness.results import Cell, Results
from experiments.harness.settings import NAMES, load_settings
from experiments.harness.sharing import Shared
from experiments.harness.statistics import Mean, difference, mean_of
from fedsgt.build.train import train
from fedsgt.engine.events import ignore
from fedsgt.errors import InputError
from fedsgt.serving.evaluation import evaluate
from fedsgt.stack.stack import Stack
from fedsgt.unlearning.unlearn import recover

TINY = [
    "grouping.groups=3",
    "data.clients=4",
    "data.limit=80",
    "data.test_limit=30",
    "training.batch_size=32",
]


def test_a_simulated_curve_is_what_deleting_for_real_serves(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    simulated = bench.trained(bench.config("digits", 1, overrides=TINY)).predict_all()
    real = bench.trained(bench.config("digits", 1, overrides=TINY, shared=False))
    assert [entry.key for entry in simulated.folder.description.modules] == [
        entry.key for entry in real.folder.description.modules
    ]
    stream = [Request(0, (0,)), Request(2, (1,))]
    deleting, steps = Deleting(real), list(deaths(stream, simulated.groups_of))
    for request, dead in zip([None, *stream], steps, strict=True):
        if request is not None:
            deleting.request(request)
        found = evaluate(real.folder).strategies
        for strategy in ("all", "min", "long"):
            assert simulated.accuracy(dead, strategy) == (found[strategy].accuracy if found else None)


def test_a_retrained_run_has_every_client_and_nothing_deleted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    run = bench.config("digits", 0, "fedretrain", overrides=[*TINY[1:], "training.rounds=1"], shared=False)
    trained = bench.trained(run)
    before = trained.records()
    deleting = Deleting(trained)
    deleting.requests([Request(1, (0,)), Request(3, (0, 1), whole=True)])
    again = deleting.retrain()
    gone = np.array(before) - np.array(again.records())
    assert gone[1, 0] == max(1, before[1][0] // 10)
    assert gone[3].tolist() == before[3]
    assert gone.sum() == gone[1, 0] + sum(before[3])


def test_a_client_that_was_lost_is_noticed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    run = bench.config("digits", 0, "fedretrain", overrides=[*TINY[1:], "training.rounds=1"], shared=False)
    deleting = Deleting(bench.trained(run))
    deleting.request(Request(0, (0,)))
    deleting.left[2][1].append("a record that nobody deleted")
    with pytest.raises(InputError, match="are retained"):
        deleting.retrain()


def test_every_run_is_checked_for_lost_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Path] = []
    monkeypatch.setattr(
        "experiments.harness.bench.check_participation", lambda folder: checked.append(Path(folder.path))
    )
    bench = Bench(tmp_path)
    run = bench.trained(bench.config("digits", 0, overrides=[*TINY, "plan.budget=1"]))
    assert checked == [Path(run.folder.path)]


def test_equal_modules_of_two_experiments_are_trained_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    whole = bench.trained(bench.config("digits", 0, overrides=TINY))
    part = bench.config("digits", 0, overrides=[*TINY, "plan.budget=1"])
    told = Quiet()
    folder = train(part, tmp_path / "part", told, recover)
    assert told.modules == []
    assert set(folder.description.keys.values()) <= set(whole.folder.description.keys.values())


def test_frozen_layers_are_computed_once_for_all_runs_and_a_deletion_takes_only_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, lower = Bench(tmp_path), [*TINY, "peft.layers=1"]
    first = bench.trained(bench.config("digits", 0, overrides=lower))
    kept = list((tmp_path / "activations").rglob("*.activations"))
    assert kept, "nothing is kept: the test shows nothing"
    with monkeypatch.context() as patch:
        patch.setattr(Stack, "lower", None)  # not called
        other = bench.config("digits", 0, overrides=[*lower, "training.learning_rate=0.1"], shared=False)
        second = bench.trained(other)
    mark = second.folder.description.clients[0].slices[0]
    Deleting(second).request(Request(0, (0,)))
    assert not list((second.folder.cache / mark).glob("*"))
    assert list((first.folder.cache / mark).glob("*.activations"))
    train(second.folder.config, Path(second.folder.path), ignore, recover, Shared(tmp_path / "activations"))
    assert not list((second.folder.cache / mark).glob("*")), "what was deleted came back"


@pytest.mark.parametrize("kind", KINDS)
def test_streams_are_the_same_each_time_and_ask_only_for_what_is_there(kind: str) -> None:
    records = [[3, 0], [1, 2], [0, 5]]
    found = streams(kind, records, 4, 3, seed=7)
    assert found == streams(kind, records, 4, 3, seed=7)
    assert found != streams(kind, records, 4, 3, seed=8)
    assert all(len(stream) == 3 for stream in found)
    for request in (request for stream in found for request in stream):
        assert all(records[request.client][index] for index in request.slices)


def test_whole_clients_leave_once_and_bursts_stay_with_one_client() -> None:
    records = [[1, 1]] * 6
    assert sorted(request.client for request in streams("client", records, 1, 6, 0)[0]) == list(range(6))
    clients = [request.client for request in streams("burst", records, 1, 20, 0)[0]]
    assert all(len(set(clients[start : start + 5])) == 1 for start in range(0, 20, 5))


def test_results_are_kept_by_settings_and_seed(tmp_path: Path) -> None:
    cell, changed = Cell("one", {"task": "a", "of": (1, 2)}), Cell("one", {"task": "b"})
    results = Results(tmp_path)
    assert not results.has(cell, 0)
    results.put(cell, 0, {"accuracy": 0.5}, 1.0)
    results.put(cell, 3, {"accuracy": 0.75}, 2.0)
    assert results.has(cell, 3)
    assert not results.has(cell, 1)
    assert not results.has(changed, 0)
    assert Results.read(tmp_path).values("one", "accuracy") == [0.5, 0.75]
    made = json.loads((tmp_path / "one.json").read_text())["seeds"]["0"]["made"]
    assert set(made) == {"versions", "commit", "machine"}
    results.put(changed, 1, {"accuracy": 1.0}, 0.0)
    assert Results.read(tmp_path).values("one", "accuracy") == [1.0]


def test_intervals_and_verdicts() -> None:
    assert mean_of([1.0, 2.0, 3.0]).half == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert difference([0.5, 0.7], [0.4, 0.6]).value == pytest.approx(0.1)
    assert mean_of([0.5]).text() == "50.0"
    decided = {verdict(Mean(value, 0.02, 5)) for value in (0.05, -0.05, 0.01)}
    assert decided == {"holds", "does not hold", "not decided"}
    assert verdict(Mean(0.0, 0.02, 5), equal=0.03) == "holds"
    assert verdict(Mean(0.02, 0.02, 5), equal=0.03) == "not decided"
    assert verdict(Mean(0.5, 0.02, 5), equal=0.03) == "does not hold"
    assert verdict(mean_of([1.0])) == "not decided"


def test_an_unknown_experiment_is_named() -> None:
    with pytest.raises(InputError, match="nothing: no such experiment; one of training"):
        load_settings("nothing")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_committed_was_measured_with_the_settings_that_are_there(name: str) -> None:
    """A result of other settings, or of a cell that is no more, would be taken for this experiment's."""
    settings = load_settings(name)
    cells = {cell.name: cell for cell in cells_of(settings)}
    folder = Path(__file__).parents[2] / "experiments" / name / "results"
    for file in folder.glob("*.json"):
        content = json.loads(file.read_text())
        assert file.stem in cells, f"{file.name}: no cell of this experiment"
        assert content["about"] == json.loads(json.dumps(cells[file.stem].about))
        assert all(int(seed) < settings.seeds for seed in content["seeds"])
    assert not [f"{job.cell.name}, seed {job.seed}" for job in missing(settings, Results.read(folder))]


def test_an_experiment_is_measured_once_and_its_page_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command itself, in small; `make experiments-quick` does it with all thirteen."""
    command = ["theory", "--quick", "--jobs", "1", "--output", str(tmp_path)]
    main(command)
    assert "of 12:" in capsys.readouterr().err
    results = {file: file.read_bytes() for file in (tmp_path / "theory" / "results").glob("*.json")}
    assert len(results) == 6
    text = (tmp_path / "theory" / "README.md").read_text()
    for plot in re.findall(r"\(plots/([^)]+)\)", text):
        assert (tmp_path / "theory" / "plots" / plot).stat().st_size
    assert "theory/README.md" in (tmp_path / "index.html").read_text()
    main(command)
    assert "of 12:" not in capsys.readouterr().err
    assert results == {file: file.read_bytes() for file in results}


def test_the_index_links_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "README.md").write_text("# 5. Sequences <B>\n")
    (tmp_path / "budget" / "claims.md").write_text(
        "**Claims**\n\n| claim | the paper | here | verdict |\n| --- | --- | --- | --- |\n"
        "| more < is more | - | 3 | **holds** |\n"
    )
    write_index(tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert "5. Sequences &lt;B&gt;" in page
    assert "more &lt; is more" in page
    assert '<td>-</td><td>3</td><td class="holds">holds</td>' in page
    assert "training" not in page
