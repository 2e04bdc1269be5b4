"""An id is deleted wherever it is: in all clients of a run, in several runs, and what is gone is skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_deletions import problems
from tiny_world import Quiet, World, trained, write_rows

from fedsgt.data.sources.rewrite import rewrite_file
from fedsgt.ledger.ledger import Ledger, LedgerError
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.unlearning import subject
from fedsgt.unlearning.rejoin import rejoin
from fedsgt.unlearning.subject import SubjectOutcome, delete_subject
from fedsgt.unlearning.unlearn import OutcomeUnknown, Receipt, accept_parts


@pytest.fixture
def runs(images: World, tmp_path: Path) -> list[RunFolder]:
    """Return two runs on one owners' file, which both rewrite."""
    data = write_rows(tmp_path / "data", images.rows, "image")
    folders = []
    for name, seed in (("one", 0), ("two", 1)):
        config = images.config(f"data.source={data}", "data.erase=rewrite", f"grouping.seed={seed}")
        trained(tmp_path / name, config)
        folders.append(open_run(tmp_path / name))
    return folders


def states(outcomes: list[SubjectOutcome]) -> list[str]:
    return [outcome.state for outcome in outcomes]


def test_a_record_that_one_run_erased_is_deleted_from_the_other(images: World, runs: list[RunFolder]) -> None:
    """The first rewrites the owner's file, so that the second finds the record in its register alone."""
    record = images.rows[5].id
    outcomes = delete_subject(runs, [record])
    assert states(outcomes) == ["deleted", "deleted"]
    for folder, outcome in zip(runs, outcomes, strict=True):
        assert outcome.receipt is not None
        assert outcome.receipt.records == 1
        assert outcome.receipt.certificate is not None
        assert problems(folder) == []
    assert states(delete_subject(runs, [record])) == ["gone", "gone"]


def test_what_is_gone_is_skipped_and_the_rest_deleted(images: World, runs: list[RunFolder]) -> None:
    first, second = images.rows[5].id, images.rows[6].id
    delete_subject(runs[:1], [first])
    outcomes = delete_subject(runs, [first, second])
    assert states(outcomes) == ["deleted", "deleted"]
    assert [outcome.receipt.records for outcome in outcomes if outcome.receipt] == [1, 2]
    (before, _) = runs[0].live().requests
    assert [outcome.gone for outcome in outcomes] == [{first: before.position}, {}]
    assert f"{first!r} was deleted before, by request no. {before.position}" in outcomes[0].message


def test_an_id_that_nobody_registered(runs: list[RunFolder]) -> None:
    heads = [folder.ledger.head() for folder in runs]
    outcomes = delete_subject(runs, ["nobody"])
    assert states(outcomes) == ["unknown", "unknown"]
    assert [folder.ledger.head() for folder in runs] == heads
    assert {outcome.message for outcome in outcomes} == {"no client of this run ever had 'nobody'"}


def test_unknown_ids_among_others_are_named(images: World, runs: list[RunFolder]) -> None:
    """Also in the answer to a repeated request, and to one whose other ids are gone."""
    record = images.rows[5].id
    for key in ("case-8", "case-8", None):
        (outcome,) = delete_subject(runs[:1], ["nobody", record, "nobody"], key)
        assert outcome.state == ("gone" if key is None else "deleted")
        assert outcome.unknown == ("nobody",)
        assert "no client of this run ever had 'nobody'" in outcome.message
        assert bool(outcome.gone) is (key is None)


def test_two_clients_and_an_earlier_enrolment_with_the_same_id(images: World, tmp_path: Path) -> None:
    """Ids are a client's own: a file of a client that came back may repeat one."""
    data = write_rows(tmp_path / "data", images.rows, "image")
    trained(tmp_path / "run", images.config(f"data.source={data}"))
    folder = open_run(tmp_path / "run")
    twice = images.rows[0]
    rows = [replace(row, client="c1") for row in images.rows[:6]]
    source = write_rows(tmp_path / "new", rows, "image") / "train.parquet"
    rejoin(folder, "c1", source, 1, 1, Quiet())
    folder = open_run(folder.path)
    (outcome,) = delete_subject([folder], [twice.id])
    assert outcome.receipt is not None
    assert outcome.receipt.records == 2
    names = {folder.description.clients[part["number"]].name for part in parts(folder)}
    assert names == {twice.client, "c1~2"}
    rewrite_file(source, "id", [twice.id])
    assert states(delete_subject([folder], [twice.id])) == ["gone"]


def parts(folder: RunFolder) -> list[dict[str, int]]:
    return list(folder.live().requests[-1].body["parts"])


def test_the_same_key_gets_the_first_answer(images: World, runs: list[RunFolder]) -> None:
    record = images.rows[5].id
    first = delete_subject(runs, [record], key="case-7")
    again = delete_subject(runs, [record], key="case-7")
    assert states(again) == ["deleted", "deleted"]
    for before, after in zip(first, again, strict=True):
        assert before.receipt is not None
        assert after.receipt is not None
        assert after.receipt.repeated
        assert after.receipt.position == before.receipt.position
    assert states(delete_subject(runs, ["other"], key="case-7")) == ["refused", "refused"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(143)])
def test_told_to_stop_it_says_where_it_came_to(
    images: World, runs: list[RunFolder], monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    def stopped(folder: RunFolder, receipt: Receipt, *others: object) -> Receipt:
        raise stop

    monkeypatch.setattr(subject, "complete", stopped)
    one, two = delete_subject(runs, [images.rows[5].id, "nobody"])
    (request,) = runs[0].live().requests
    assert (one.state, one.unknown, one.stopped) == ("deleted", ("nobody",), True)
    assert one.receipt is not None
    assert one.receipt.position == request.position
    assert "it was stopped" in str(one.receipt.pending)
    assert (two.state, two.receipt, two.stopped) == ("refused", None, True)
    assert not runs[1].live().requests


def test_stopped_before_acceptance_nothing_is_in_force(
    images: World, runs: list[RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry of an earlier request with the same key is not taken for this one."""

    def stopped(*args: object) -> Receipt:
        raise KeyboardInterrupt

    delete_subject(runs[:1], [images.rows[5].id], key="case-9")
    monkeypatch.setattr(subject, "accept_parts", stopped)
    outcomes = delete_subject(runs, [images.rows[6].id], key="case-9")
    assert states(outcomes) == ["refused", "refused"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), LedgerError("no ledger")])
def test_an_error_in_one_run_is_told_as_its_outcome(
    images: World, runs: list[RunFolder], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    accept = accept_parts

    def failing(folder: RunFolder, *args: object) -> Receipt:
        if folder is runs[0]:
            raise error
        return accept(folder, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(subject, "accept_parts", failing)
    one, two = delete_subject(runs, [images.rows[5].id])
    assert (one.state, two.state) == ("refused", "deleted")
    assert one.message in ("No space left on device; nothing was changed", "no ledger; nothing was changed")


def test_an_error_after_acceptance_does_not_hide_the_request(
    images: World, runs: list[RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    accept = accept_parts

    def failing(*args: object) -> Receipt:
        accept(*args)  # type: ignore[arg-type]
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(subject, "accept_parts", failing)
    outcomes = delete_subject(runs, [images.rows[5].id])
    assert states(outcomes) == ["deleted", "deleted"]
    assert all("Input/output error" in str(found.receipt and found.receipt.pending) for found in outcomes)


def test_nobody_knows_whether_the_deletion_is_in_force(
    images: World, runs: list[RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop ends it there; an error of the ledger only concerns its run."""

    def unreadable(ledger: Ledger) -> None:
        raise LedgerError("no ledger")

    def stopped(*args: object) -> Receipt:
        raise KeyboardInterrupt

    def unknown(*args: object) -> Receipt:
        raise OutcomeUnknown("it is not known")

    monkeypatch.setattr(subject, "accept_parts", unknown)
    assert states(delete_subject(runs, [images.rows[5].id])) == ["not known", "not known"]
    monkeypatch.setattr(subject, "accept_parts", stopped)
    monkeypatch.setattr(Ledger, "writing", unreadable)
    one, two = delete_subject(runs, [images.rows[5].id])
    assert (one.state, two.state) == ("not known", "refused")
    assert one.message.startswith("stopped; it is not known whether the deletion is in force")
