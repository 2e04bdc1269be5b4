"""A client withdraws its data: from every run, once, whatever stops in between; and nobody else's."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
import remote_world
import typer
from click.testing import Result
from dataset_columns import ids_of
from remote_world import LABELS, SLICES, Federation, desk_process, make_federation, make_run
from typer.testing import CliRunner
from withdraw_child import withdraw_and_die

from fedsgt.certificates.keys import PublicKey
from fedsgt.certificates.signatures import read_certificate
from fedsgt.cli.commands.withdraw import withdraw as command
from fedsgt.data.sources.rewrite import rewrite_file
from fedsgt.errors import InputError
from fedsgt.federation.client import records
from fedsgt.federation.client.withdraw import Outcome, send_pending, withdraw
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return make_federation(tmp_path / "fed")


@pytest.fixture
def desk(federation: Federation) -> Iterator[None]:
    with desk_process(federation.server):
        yield


def fedsgt_withdraw(federation: Federation, *options: str, name: str = "a") -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(federation.folder / name / "client.toml"), *options])


def pending(federation: Federation, name: str = "a") -> list[Path]:
    return list((federation.folder / name / "state" / "pending").glob("*.json"))


def states(outcomes: list[Outcome]) -> list[str]:
    return [outcome.state for outcome in outcomes]


def deleted(federation: Federation, run: str = "x") -> list[str]:
    """Return all hashes of records that the ledger says were deleted, as often as it says so."""
    parts = [part for entry in federation.requests(run) for part in entry.body["parts"]]
    return [code for part in parts for code in part["records"]]


@pytest.mark.usefixtures("desk")
def test_records_leave_all_runs_and_the_file(federation: Federation) -> None:
    make_run(federation, "y", slices=2)
    x, y = (federation.client("a", run).hash_of("a07") for run in "xy")
    done = fedsgt_withdraw(federation, "--record", "a07", "--json")
    assert done.exit_code == 0
    told = {entry["run"]: entry for entry in json.loads(done.stdout)}
    assert (deleted(federation, "x"), deleted(federation, "y")) == ([x], [y])
    for folder in map(federation.run, "xy"):
        entry = told.pop(folder.description.id)
        name = f"{entry['run']}-{entry['position']}.json"
        path = federation.folder / "a" / "certificates" / name
        assert entry["certificate"] == str(path)
        assert read_certificate(path, PublicKey.read(folder.path / "signing.pub")).run == entry["run"]
    assert not told
    assert "a07" not in federation.ids("a")
    assert pending(federation) == []
    assert len(federation.ids("b")) == remote_world.EACH


@pytest.mark.usefixtures("desk")
def test_from_one_run_only(federation: Federation) -> None:
    other = make_run(federation, "y", slices=2).description.id
    first = federation.run().description.id
    with pytest.raises(InputError, match="--run"):
        withdraw(federation.settings("a"), Deletion("a", slices=(0,)))
    outcomes = withdraw(federation.settings("a"), Deletion("a", records=("a07",)), first)
    assert [outcome.run for outcome in outcomes] == [first]
    assert federation.requests("y") == []
    assert "a07" in federation.ids("a")
    assert "a07" not in ids_of(federation.own("a").records(LABELS, first))
    outcomes = withdraw(federation.settings("a"), Deletion("a", records=("a07",)))
    assert [outcome.run for outcome in outcomes] == [other], "the first has forgotten it already"
    assert "a07" not in federation.ids("a")


@pytest.mark.parametrize(
    ("deletion", "message"),
    [
        (Deletion("a", records=("a00", "b00")), "no run has a record 'b00'"),
        (Deletion("a", slices=(SLICES,)), f"no slice {SLICES}"),
    ],
)
def test_what_is_not_there_is_not_asked_for(federation: Federation, deletion: Deletion, message: str) -> None:
    with pytest.raises(InputError, match=message):
        withdraw(federation.settings("a"), deletion)
    assert pending(federation) == []
    assert len(federation.ids("a")) == remote_world.EACH


def test_a_desk_that_is_closed_gets_it_later(federation: Federation) -> None:
    done = fedsgt_withdraw(federation, "--record", "a07")
    assert done.exit_code == 1
    assert "cannot be reached" in done.stderr
    assert "the next start of fedsgt client" in done.stderr
    assert len(pending(federation)) == 1
    assert "a07" in federation.ids("a")
    withdraw(federation.settings("a"), Deletion("a", records=("a07",)))
    assert len(pending(federation)) == 1, "the same again is the same request"
    withdraw(federation.settings("a"), Deletion("a", records=("a07", "a08")))
    assert len(pending(federation)) == 2
    with desk_process(federation.server):
        assert states(send_pending(federation.settings("a"))) == ["accepted", "accepted"]
    client = federation.client("a")
    assert sorted(deleted(federation)) == sorted([client.hash_of("a07"), client.hash_of("a08")])
    assert pending(federation) == []
    assert not {"a07", "a08"} & set(federation.ids("a"))


@pytest.mark.usefixtures("desk")
def test_another_clients_key_deletes_nothing(federation: Federation) -> None:
    shutil.copy(federation.folder / "b" / "node.key", federation.folder / "a" / "node.key")
    done = fedsgt_withdraw(federation, "--all")
    assert done.exit_code == 1
    assert "(forged)" in done.stderr
    assert federation.requests() == []
    assert pending(federation) == []
    assert len(federation.ids("a")) == remote_world.EACH


@pytest.mark.usefixtures("desk")
def test_what_the_operator_has_deleted_leaves_the_file_too(federation: Federation) -> None:
    unlearn(federation.run(), [Deletion("a")])
    assert states(withdraw(federation.settings("a"), Deletion("a"))) == ["nothing-left"]
    assert federation.ids("a") == []


@pytest.mark.usefixtures("desk")
def test_a_run_that_the_server_has_lost(federation: Federation) -> None:
    run = federation.run()
    shutil.rmtree(run.path)
    (outcome,) = withdraw(federation.settings("a"), Deletion("a", records=("a07",)))
    assert outcome.state == "kept"
    enrolment = federation.folder / "a" / "state" / "enrolments" / f"{outcome.run}.json"
    assert f"remove {enrolment}" in outcome.message
    enrolment.unlink()
    assert states(send_pending(federation.settings("a"))) == ["nothing-left"]
    assert "a07" not in federation.ids("a")


class Killed:
    """A client that is stopped in the middle of withdrawing, again and again; each time another record."""

    def __init__(self, federation: Federation, processes: ForkServerContext) -> None:
        self.federation, self.processes = federation, processes
        self.records = iter(federation.ids("a"))
        self.count = federation.folder / "count"

    def stopped_at(self, step: int | None) -> tuple[str, bool]:
        """The record, and whether the command came to its end."""
        record = next(self.records)
        arguments = (self.federation.folder / "a", record, step, self.count)
        child = self.processes.Process(target=withdraw_and_die, args=arguments)
        child.start()
        child.join(120)
        assert child.exitcode is not None, "it hangs"
        return record, child.exitcode == 0

    def resume(self, record: str, by_command: bool) -> None:
        """At the next start of the client, or by the same command; which knows if all was done already."""
        settings = self.federation.settings("a")
        there = record in ids_of(self.federation.own("a").records(LABELS))
        if by_command and there:
            outcomes = withdraw(settings, Deletion("a", records=(record,)))
        else:
            outcomes = send_pending(settings)
            if not outcomes and record in self.federation.ids("a"):  # it stopped before anything was asked
                outcomes = withdraw(settings, Deletion("a", records=(record,)))
        assert set(states(outcomes)) <= {"accepted"}

    def check(self, record: str) -> None:
        federation, own = self.federation, self.federation.own("a")
        code = federation.client("a").hash_of(record)
        assert deleted(federation).count(code) == 1, "never twice"
        assert record not in federation.ids("a")
        assert own.hash_of(record) in own.withdrawn()
        assert pending(federation) == []
        held = (federation.folder / "a" / "certificates").glob("*.json")
        assert any(code in path.read_text() for path in held)
        assert not list((federation.folder / "a" / "state").rglob(".*"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["withdraw_child"])
    federation = make_federation(tmp_path_factory.mktemp("killed") / "fed")
    with pytest.MonkeyPatch.context() as patch, desk_process(federation.server):
        patch.setenv("PYTHONPATH", str(Path(remote_world.__file__).parent), prepend=os.pathsep)
        yield Killed(federation, context)


def test_killed_at_any_step_it_is_finished_later_and_done_once(killed: Killed) -> None:
    for _ in range(2):  # the first makes the folders
        record, whole = killed.stopped_at(None)
        assert whole
        killed.check(record)
    steps = int(killed.count.read_text())
    chosen = sorted(random.Random(0).sample(range(1, steps + 1), 20))
    known = []
    for number, step in enumerate(chosen):
        record, whole = killed.stopped_at(step)
        assert not whole
        known.append(killed.federation.client("a").hash_of(record) in deleted(killed.federation))
        killed.resume(record, by_command=number % 2 == 0)
        killed.check(record)
    assert known == sorted(known)
    assert set(known) == {False, True}, "before and after the desk had accepted it"


@pytest.mark.usefixtures("desk")
def test_a_record_that_left_the_file_is_withdrawn_from_the_run(federation: Federation) -> None:
    rewrite_file(federation.source("a"), "id", ["a07"])
    (outcome,) = withdraw(federation.settings("a"), Deletion("a", records=("a07",)))
    assert outcome.state == "accepted"
    assert outcome.granted is not None
    assert outcome.granted.records == 1
    (request,) = federation.requests()
    assert request.body["groups"]
    with pytest.raises(InputError, match="'a07' was withdrawn before"):
        withdraw(federation.settings("a"), Deletion("a", records=("a07",)))


@pytest.mark.usefixtures("desk")
def test_a_pending_certificate_comes_later(federation: Federation) -> None:
    """The client knows that the deletion is in force, leaves the records out, and asks again."""
    place = federation.run().path / "signing.pub"
    (place / "in the way").mkdir(parents=True)
    done = fedsgt_withdraw(federation, "--record", "a07", "--json")
    assert done.exit_code == 3
    (told,) = json.loads(done.stdout)
    assert (told["state"], told["certificate"]) == ("pending", None)
    assert told["message"].startswith("the deletion is in force; ")
    assert "a07" not in federation.ids("a")
    assert len(pending(federation)) == 1
    (place / "in the way").rmdir()
    place.rmdir()
    (outcome,) = send_pending(federation.settings("a"))
    assert outcome.state == "accepted"
    assert outcome.certificate is not None
    assert read_certificate(outcome.certificate, PublicKey.read(place)).request.position == told["position"]
    assert pending(federation) == []
    assert len(deleted(federation)) == 1


@pytest.mark.usefixtures("desk")
def test_what_happens_to_the_clients_file_is_told(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = fedsgt_withdraw(federation, "--record", "a07", "--dry-run")
    assert "file records.parquet: rewritten without the withdrawn rows" in planned.stdout
    done = fedsgt_withdraw(federation, "--record", "a07")
    assert "file records.parquet: rewritten without the withdrawn rows" in done.stdout

    def refused(path: Path, *others: object) -> int:
        raise InputError("no room")

    monkeypatch.setattr(records, "erase_records", refused)
    failed = fedsgt_withdraw(federation, "--record", "a08", "--json")
    assert failed.exit_code == 0, "the deletion is in force at the server"
    (told,) = json.loads(failed.stdout)
    assert told["file"] == "records.parquet: NOT rewritten (no room)"
    settings = federation.folder / "a" / "client.toml"
    settings.write_text(settings.read_text().replace('erase = "rewrite"', 'erase = "tombstone"'))
    left = fedsgt_withdraw(federation, "--record", "a09")
    assert "file records.parquet: not changed, the rows are left out when it is read" in left.stdout
    assert "a09" in federation.ids("a")


def slice_ids(federation: Federation, index: int) -> list[str]:
    """Return the ids of client a's records in one slice."""
    return [record.id for record in federation.client("a").cut()[index]]


def spoil_file(path: Path, way: str) -> None:
    if way == "missing":
        path.unlink()
    else:
        path.write_bytes(b"no parquet file")


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize("kept", [0, 2])
def test_a_slice_whose_rows_left_the_file_is_withdrawn_whole(federation: Federation, kept: int) -> None:
    ids, run = slice_ids(federation, 0), federation.run().description.id
    rewrite_file(federation.source("a"), "id", ids[kept:])
    planned = fedsgt_withdraw(federation, "--slice", "0", "--dry-run", "--json")
    (plan,) = json.loads(planned.stdout)
    assert (plan["records"], plan["slices"]) == (len(ids), {"0": len(ids)})
    (told,) = json.loads(fedsgt_withdraw(federation, "--slice", "0", "--json").stdout)
    assert (told["state"], told["records"]) == ("accepted", len(ids))
    own = federation.own("a")
    assert {own.hash_of(name) for name in ids} == own.withdrawn(run)
    assert len(federation.ids("a")) == remote_world.EACH - len(ids)
    with pytest.raises(InputError, match="there is no record left to withdraw"):
        withdraw(federation.settings("a"), Deletion("a", slices=(0,)))


@pytest.mark.usefixtures("desk")
def test_all_of_an_emptied_file_is_withdrawn(federation: Federation) -> None:
    withdraw(federation.settings("a"), Deletion("a", records=("a07",)))
    rewrite_file(federation.source("a"), "id", federation.ids("a"))
    planned = fedsgt_withdraw(federation, "--all", "--dry-run")
    assert f"would delete {remote_world.EACH - 1} records" in planned.stdout
    (outcome,) = withdraw(federation.settings("a"), Deletion("a"))
    assert outcome.granted is not None
    assert (outcome.state, outcome.granted.records) == ("accepted", remote_world.EACH - 1)


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize("way", ["missing", "unreadable"])
def test_without_a_readable_file_everything_registered_can_be_withdrawn(
    federation: Federation, way: str
) -> None:
    ids, file = slice_ids(federation, 0), federation.source("a")
    other = slice_ids(federation, 1)[0]
    whole = file.read_bytes()
    spoil_file(file, way)
    for options, number in ((["--record", other], 1), (["--slice", "0"], len(ids))):
        (plan,) = json.loads(fedsgt_withdraw(federation, *options, "--dry-run", "--json").stdout)
        (told,) = json.loads(fedsgt_withdraw(federation, *options, "--json").stdout)
        assert (told["state"], told["records"], plan["records"]) == ("accepted", number, number)
        assert told["file"] == plan["file"]
        assert "not changed" in told["file"]
    (told,) = json.loads(fedsgt_withdraw(federation, "--all", "--json").stdout)
    assert told["records"] == remote_world.EACH - len(ids) - 1
    with pytest.raises(InputError, match="no run has a record 'b00'"):
        withdraw(federation.settings("a"), Deletion("a", records=("b00",)))
    file.write_bytes(whole)
    assert federation.client("a").records == (), "withdrawn records stay out when the file is back"


def test_without_a_file_a_request_is_kept_and_filed_once(federation: Federation) -> None:
    federation.source("a").unlink()
    for _ in range(2):
        assert states(withdraw(federation.settings("a"), Deletion("a", slices=(0,)))) == ["kept"]
        assert len(pending(federation)) == 1
    with desk_process(federation.server):
        assert states(send_pending(federation.settings("a"))) == ["accepted"]
    assert pending(federation) == []


def test_without_file_and_register_nothing_is_sent(federation: Federation) -> None:
    """Nobody knows what such a run has learnt from; an empty register would hide it for good."""
    run = federation.run().description.id
    register = federation.folder / "a" / records.REGISTERS / f"{run}.json"
    register.unlink()
    federation.source("a").unlink()
    with pytest.raises(InputError, match=f"run {run} has no register yet.*does not exist.*nothing was sent"):
        withdraw(federation.settings("a"), Deletion("a"))
    assert not register.exists()
    assert pending(federation) == []


@pytest.mark.usefixtures("desk")
def test_a_folder_that_may_not_be_entered_stops_no_withdrawal(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(records, "training_files", forbidden)
    monkeypatch.setattr(records, "load_dataset", forbidden)
    assert states(withdraw(federation.settings("a"), Deletion("a", slices=(0,)))) == ["accepted"]
    with pytest.raises(InputError, match="Permission denied"):
        federation.client("a")


@pytest.mark.usefixtures("desk")
def test_withdrawn_from_one_run_what_left_the_file_leaves_the_others_too(federation: Federation) -> None:
    other = make_run(federation, "y").description.id
    first, own = federation.run().description.id, federation.own("a")
    withdraw(federation.settings("a"), Deletion("a", records=("a07",)), first)
    rewrite_file(federation.source("a"), "id", ["a07"])
    outcomes = withdraw(federation.settings("a"), Deletion("a"))
    assert sorted(outcome.granted.records for outcome in outcomes if outcome.granted) == [29, 30]
    assert own.hash_of("a07") in own.withdrawn(other)
    assert not own.holds(other, "a07")
