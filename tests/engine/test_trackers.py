"""Metrics reach each tracker's own files, read back with the tracker's own library."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from fedsgt.engine.events import ClientTrouble, ClientUpdated, DataChecked, ModuleFinished, RoundFinished
from fedsgt.engine.trackers import MetricsFile, check_trackers, open_trackers
from fedsgt.errors import InputError


def log_two_rounds(names: list[str], folder: Path) -> None:
    with open_trackers(names, folder) as record:
        record(DataChecked(1.0))
        record(RoundFinished("abc", (0, 1), 1, 1.5, 0.25))
        record(RoundFinished("abc", (0, 1), 2, 0.5, 0.25))


def test_json_lines_always(tmp_path: Path) -> None:
    log_two_rounds([], tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["event"], line["name"], line["step"], line["loss"]) for line in lines] == [
        ("round", "0-1", 1, 1.5),
        ("round", "0-1", 2, 0.5),
    ]
    assert all(line["module"] == "abc" and line["time"] > 0 for line in lines)


def test_a_line_that_was_cut_short_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"event": "rou')
    MetricsFile(path)(RoundFinished("abc", (0,), 1, 1.0, 0.0))
    assert json.loads(path.read_text().splitlines()[1])["loss"] == 1.0


def test_tensorboard(tmp_path: Path) -> None:
    accumulator = import_module("tensorboard.backend.event_processing.event_accumulator")
    log_two_rounds(["tensorboard"], tmp_path)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(point.step, point.value) for point in events.Scalars("round loss/0-1")] == [(1, 1.5), (2, 0.5)]


@pytest.mark.filterwarnings("ignore")  # MLflow's own use of its database library
def test_mlflow(tmp_path: Path) -> None:
    tracking = import_module("mlflow.tracking")
    log_two_rounds(["mlflow"], tmp_path)
    client = tracking.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("fedsgt")
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "round loss/0-1")
    assert [(point.step, point.value) for point in history] == [(1, 1.5), (2, 0.5)]
    assert run.info.status == "FINISHED"


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_one_that_is_not_installed_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_trackers([name])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=f"{name} is not installed"):
        check_trackers([name])


def test_numbers_that_json_has_no_word_for_are_null(tmp_path: Path) -> None:
    MetricsFile(tmp_path / "metrics.jsonl")(RoundFinished("abc", (0,), 1, float("nan"), 0.0))
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["loss"] is None


def test_a_line_says_how_many_records_an_epoch_uses_if_a_window_leaves_some_out(tmp_path: Path) -> None:
    record = MetricsFile(tmp_path / "metrics.jsonl")
    record(ClientUpdated("abc", (0, 1), "c0", 2, records=7, seconds=0.1, used=3))
    told = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert (told["records"], told["used"]) == (7, 3)


OLD_RUN = Path(__file__).parents[1] / "fixtures" / "run-0.1.0"


def test_lines_are_those_of_a_run_made_before(tmp_path: Path) -> None:
    """Reports, deletions and audits read files of both: the same events with the same keys in one order."""
    record = MetricsFile(tmp_path / "metrics.jsonl")
    record(ClientUpdated("abc", (0, 1), "c0", 2, records=7, seconds=0.123456, loss=0.5))
    record(RoundFinished("abc", (0, 1), 2, 0.5, 0.123456))
    record(ModuleFinished("abc", (0, 1), "f" * 64, {"loss": 0.5}))
    record(ClientTrouble("c0", "went away"))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    before = [json.loads(line) for line in (OLD_RUN / "metrics.jsonl").read_text().splitlines()]
    keys = {line["event"]: list(line) for line in before}
    assert set(keys) == {"update", "round", "module"}
    assert {line["event"]: list(line) for line in lines if line["event"] != "trouble"} == keys
    assert all(line.pop("time") > 0 for line in lines)
    round_of = {"name": "0-1", "step": 2, "module": "abc"}
    assert lines == [
        {"event": "update", **round_of, "name": "0-1/c0", "client": "c0"}
        | {"loss": 0.5, "records": 7, "seconds": 0.1235},
        {"event": "round", **round_of, "groups": [0, 1], "loss": 0.5, "seconds": 0.1235},
        {"event": "module", **round_of, "groups": [0, 1], "sha256": "f" * 64, "loss": 0.5},
        {"event": "trouble", "name": "c0", "step": 0, "client": "c0", "what": "went away"},
    ]
