"""A run from Python: every verb, on runs whose records are in a file and on runs that keep theirs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from given_world import as_dicts, trained_in_memory
from tiny_deletions import own_state
from tiny_world import Quiet, World

import fedsgt
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.kept_records import read_kept

LIVE = 9  # modules of three rotations of three groups


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_in_memory(images, tmp_path_factory.mktemp("source") / "run").path


@pytest.fixture
def run(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> fedsgt.Run:
    shutil.copytree(source, tmp_path / "run")
    monkeypatch.setenv("FEDSGT_STATE", str(own_state(tmp_path / "run")))
    return fedsgt.open_run(tmp_path / "run")


def test_a_run_tells_what_it_is(run: fedsgt.Run) -> None:
    assert run.clients.names == ["c0", "c1", "c2", "c3"]
    assert {(one.records, one.left, one.slices, one.remote) for one in run.clients} == {(12, 12, 2, False)}
    assert (run.plan.kind, run.plan.modules, run.plan.passes) == ("rotations", LIVE, 6.0)
    assert run.plan.live == run.plan.sequences
    status = run.status(requests=4)
    assert (status.live_modules, status.modules, status.exhausted) == (LIVE, LIVE, False)
    forecast = run.forecast(requests=4)
    assert len(forecast.alive) == len(forecast.live_groups) == 5
    assert (forecast.alive[0], forecast.live_groups[0]) == (1.0, 3.0)
    assert run.config.grouping.groups == 3
    assert run.problems == []


def test_a_str_and_a_path_open_the_same_run(run: fedsgt.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.path.parent)
    assert fedsgt.open_run("run").path == fedsgt.open_run(Path("run")).path == run.path
    with fedsgt.open_run("run") as opened:
        monkeypatch.chdir("/")
        assert opened.status().live_modules == LIVE, "the run was lost with the working directory"


def test_a_stop_while_accuracy_is_scored_says_that_the_deletion_is_in_force(
    run: fedsgt.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsgt.unlearning.unlearn import Stopped

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedsgt.reporting.accuracy.rescore", stop)
    with pytest.raises(Stopped) as stopped:
        run.unlearn("c0", slices=[0])
    assert stopped.value.receipt.in_force
    assert stopped.value.receipt.certificate is not None


def test_a_deletion_leaves_no_dead_module_in_memory(run: fedsgt.Run, images: World) -> None:
    run.predict([images.rows[0].content])
    worker = run._session.state["predictors"]["all"].worker
    before = set(worker.modules)
    run.unlearn("c0", slices=[0])
    assert before > set(worker.modules)
    assert set(worker.modules) <= {entry.key for entry in run.folder.live().modules()}


def test_a_client_that_has_joined_keeps_its_records_whatever_fails_then(
    run: fedsgt.Run, images: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the ledger's entry on, the kept file is the only copy."""
    new = [{**row, "id": f"new {row['id']}"} for row in as_dicts(list(images.rows[:6]), "image")]

    def full(self: RunFolder) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "_finish_description", full)
        with pytest.raises(OSError, match="No space left"):
            run.rejoin("c0", new, progress=False)
    again = fedsgt.open_run(run.path)
    joined = len(again.clients) == 5
    assert (run.path / "records" / "4.parquet").exists() is joined
    if not joined:
        return
    assert len(read_kept(run.path, 4)) == 6
    again.retrain(progress=False)
    assert again.verify().passed


def test_a_damaged_file_of_one_client_holds_up_no_other(run: fedsgt.Run) -> None:
    run.unlearn("c0", records=[read_kept(run.path, 0)[0].id])
    file = run.path / "records" / "0.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:40])
    assert [finding.name for finding in run.audit().problems] == ["records/0.parquet"]
    assert run.unlearn("c1", slices=[0]).complete
    waiting = run.unlearn("c0", slices=[1])
    assert waiting.pending is not None
    assert "records/0.parquet" in waiting.pending
    assert run.unlearn("c2", slices=[0]).complete
    file.write_bytes(whole)
    run.recover()
    assert run.audit().clean


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("x" * 5000, "cannot be opened"),
        (7, "path is of type int"),
        ("", "path is empty"),
        ("nowhere", "no such run"),
        (__file__, "a file"),
    ],
)
def test_what_is_no_run_is_named(path: Any, told: str) -> None:
    with pytest.raises(fedsgt.InputError, match=told):
        fedsgt.open_run(path)


def test_predictions_and_evaluation_agree(run: fedsgt.Run, images: World) -> None:
    inputs = [row.content for row in images.rows[:6]]
    found = run.predict(inputs)
    test = run.predict_test()
    assert found.labels == [answer.label for answer in found] == test.labels
    assert len(found) == 6
    assert found[0].probability == max(found[0].probabilities)
    assert test.accuracy is not None
    evaluation = run.evaluate()
    assert evaluation.accuracy == test.accuracy
    assert evaluation.records == 6
    assert run.predict_test(2).labels == test.labels[:2]
    assert run.predict(inputs[0], strategy="long").strategy == "long"
    with pytest.raises(fedsgt.InputError, match="strategy: 'best' is unknown"):
        run.predict(inputs, strategy="best")


def test_a_deletion_is_previewed_in_force_and_proved(run: fedsgt.Run) -> None:
    gone, kept = (record.id for record in read_kept(run.path, 2)[:2])
    preview = run.preview("c2", records=[gone])
    assert (preview.records, run.status().live_modules) == (1, LIVE), "a preview changes nothing"
    receipt = run.unlearn(client="c2", records=[gone], key="case-4711")
    assert (receipt.in_force, receipt.complete, receipt.records) == (True, True, 1)
    assert (receipt.groups, receipt.modules) == (preview.groups, preview.modules)
    assert [one.client for one in receipt.clients] == ["c2"]
    assert receipt.certificate is not None
    assert receipt.certificate.is_file()
    assert run.unlearn(client="c2", records=[gone], key="case-4711").number == receipt.number
    with pytest.raises(fedsgt.AlreadyDeleted, match="was deleted before"):
        run.unlearn(client="c2", records=[gone])
    with pytest.raises(fedsgt.KeyUsed, match="case-4711"):
        run.unlearn(client="c2", records=[kept], key="case-4711")
    assert {record.id for record in read_kept(run.path, 2)}.isdisjoint({gone})
    assert kept in {record.id for record in read_kept(run.path, 2)}
    assert run.clients[2].left == 11
    assert run.audit().clean
    assert run.verify(sample=2).passed
    training = run.retrain(progress=False)
    assert training is not None
    assert training.trained == receipt.modules
    assert run.status().live_modules == LIVE
    assert run.verify().counts == {"same": LIVE}


def test_everything_of_a_client_can_go_and_it_can_come_back(run: fedsgt.Run, images: World) -> None:
    receipt = run.unlearn("c1", everything=True)
    assert receipt.records == 12
    assert read_kept(run.path, 1) == []
    assert run.clients[1].left == 0
    new = [{**row, "id": f"new {row['id']}"} for row in as_dicts(list(images.rows[:8]), "image")]
    quiet = Quiet()
    joined = run.rejoin("c1", new, slices=2, progress=quiet)
    assert (joined.name, joined.records, joined.trained) == ("c1~2", 8, len(quiet.modules))
    assert [one.left for one in run.clients] == [12, 0, 12, 12, 8]
    assert run.verify().passed
    again = run.unlearn("c1", records=[new[0]["id"]])
    assert again.records == 1
    assert len(read_kept(run.path, 4)) == 7
    assert run.audit().clean
    assert run.verify().passed


def test_several_deletions_are_one_request(run: fedsgt.Run) -> None:
    receipt = run.unlearn(deletions=[fedsgt.Deletion("c0", slices=(0,)), fedsgt.Deletion("c3", slices=(1,))])
    assert [one.client for one in receipt.clients] == ["c0", "c3"]
    assert run.status().requests == 1


def test_pages_and_exports(run: fedsgt.Run, tmp_path: Path) -> None:
    assert run.report() == run.path / "report.html"
    page = run.report(str(tmp_path / "page.html"), evaluate=False)
    assert "<html" in page.read_text()
    assert run.report_json(evaluate=False)["status"]["modules"]["live"] == LIVE
    assert (run.export(sequence=1, depth=2) / "adapter_config.json").is_file()
    assert (run.export(output=tmp_path / "adapter") / "adapter_config.json").is_file()


def test_a_copy_of_a_run_with_a_pending_deletion_has_all_retained_records(
    run: fedsgt.Run, tmp_path: Path
) -> None:
    from fedsgt.runs.copy import copy_run
    from fedsgt.unlearning.unlearn import accept

    gone = read_kept(run.path, 0)[0].id
    accept(run.folder, [fedsgt.Deletion("c0", records=(gone,))])
    copy = fedsgt.Run(copy_run(run.folder, tmp_path / "copy"))
    assert {record.id for record in read_kept(copy.path, 0)} == {
        record.id for record in read_kept(run.path, 0) if record.id != gone
    }
    assert copy.verify(sample=1).passed


def test_a_copy_has_its_own_records(run: fedsgt.Run, tmp_path: Path) -> None:
    from fedsgt.runs.copy import copy_run

    copy = fedsgt.Run(copy_run(run.folder, tmp_path / "copy"))
    gone = read_kept(run.path, 0)[0].id
    run.unlearn("c0", records=[gone])
    assert gone in {record.id for record in read_kept(copy.path, 0)}
    assert copy.verify(sample=1).passed
    assert copy.audit().clean


Call = Callable[[fedsgt.Run], object]
WRONG: list[tuple[str, Call, str]] = [
    ("no client", lambda run: run.unlearn(records=["r000"]), "give the client's name"),
    ("nothing named", lambda run: run.unlearn("c0"), "one of records=.*everything=True"),
    ("two ways", lambda run: run.unlearn("c0", slices=0, everything=True), "one of records="),
    ("one text", lambda run: run.unlearn("c0", records="r000"), "records is one text, 'r000'; give a list"),
    ("a number", lambda run: run.unlearn("c0", records=[7]), "the id 7 is a int; ids are texts"),  # type: ignore[list-item]
    ("no ids", lambda run: run.unlearn("c0", records=[]), "nothing is named to delete"),
    ("unknown id", lambda run: run.unlearn("c0", records=["x"]), "it never registered a record 'x'"),
    ("unknown client", lambda run: run.unlearn("c9", slices=0), "client 'c9' is not in this run"),
    ("client number", lambda run: run.unlearn(0, slices=0), "client is of type int"),  # type: ignore[arg-type]
    ("no slice", lambda run: run.unlearn("c0", slices=7), "has no slice 7"),
    ("slice text", lambda run: run.preview("c0", slices=["0"]), "are not all whole numbers"),  # type: ignore[list-item]
    ("empty key", lambda run: run.unlearn("c0", slices=0, key=" "), "the idempotency key is empty"),
    ("both forms", lambda run: run.unlearn("c0", deletions=[]), "deletions stand alone"),
    ("empty batch", lambda run: run.unlearn(deletions=[]), "the request is empty"),
    ("no sample", lambda run: run.verify(sample=0), "sample is 0; allowed: a whole number"),
    ("requests", lambda run: run.forecast(requests=-1), "requests is -1; allowed"),
    ("sequence", lambda run: run.export(sequence=9), "sequence: 9 is not between 0 and 2"),
    ("rejoin", lambda run: run.rejoin("c0", 7), "data: a value of type int is not a table"),
    ("rejoin file", lambda run: run.rejoin("c0", "nowhere.parquet"), "nowhere.parquet"),
    ("export text", lambda run: run.export("x"), "sequence is 'x'; allowed: a whole number"),  # type: ignore[arg-type]
    ("strategy list", lambda run: run.predict([b""], strategy=["all"]), "strategy is of type list"),  # type: ignore[arg-type]
    ("key number", lambda run: run.unlearn("c0", slices=0, key=5), "key is of type int"),  # type: ignore[arg-type]
    ("rejoin number", lambda run: run.rejoin(5, []), "client is of type int"),  # type: ignore[arg-type]
    ("report", lambda run: run.report(run.path / "x.html"), "give a file outside"),
]


@pytest.mark.parametrize(("call", "told"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_wrong_arguments_change_nothing(call: Call, told: str, run: fedsgt.Run) -> None:
    before = (run.folder.live().position, sorted(run.path.rglob("*.safetensors")))
    with pytest.raises(fedsgt.InputError, match=told):
        call(run)
    assert (run.folder.live().position, sorted(run.path.rglob("*.safetensors"))) == before
    assert run.audit().clean


def test_the_policy_decides_if_it_is_asked(images: World, tmp_path: Path) -> None:
    run = trained_in_memory(images, tmp_path / "run", "unlearning.retrain=when-exhausted")
    assert run.retrain(if_due=True) is None
    run.unlearn("c0", everything=True)
    run.unlearn("c1", everything=True)
    assert run.retraining_due() == "no module is live"
    with pytest.raises(fedsgt.Exhausted, match="no module is live"):
        run.predict([images.rows[0].content])
    training = run.retrain(if_due=True, progress=False)
    assert training is not None
    assert training.trained > 0
    assert run.predict([images.rows[0].content]).labels


def test_everything_prints_in_one_line_and_as_json(run: fedsgt.Run) -> None:
    results: list[Any] = [
        run.status(),
        run.forecast(),
        run.plan,
        run.clients,
        run.clients[0],
        run.predict_test(3),
        run.predict_test(1)[0],
        run.evaluate(),
        run.preview("c0", slices=[0]),
        run.unlearn("c0", slices=[0]),
        run.verify(sample=1),
        run.audit(),
        run.retrain(progress=False),
    ]
    for result in (run, *results):
        assert "\n" not in repr(result), repr(result)
        assert "object at 0x" not in repr(result)
        assert len(repr(result)) < 600
    for result in results:
        json.dumps(result.to_json())
        html = getattr(result, "_repr_html_", lambda: "<table></table>")()
        assert html.startswith(("<table", "<svg")), html[:50]
