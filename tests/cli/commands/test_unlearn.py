"""`fedsgt unlearn` as a person uses it: dry runs, batches, wrong input, and interrupted requests."""

from __future__ import annotations

import io
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command import fedsgt, shown
from tiny_world import World, write_rows
from tiny_world import trained as tiny_trained

from fedsgt.cli.commands.unlearn import read_ids
from fedsgt.data.sources import erasure
from fedsgt.errors import InputError
from fedsgt.runs.folder import open_run


def test_a_dry_run_then_the_request_then_again(run: str) -> None:
    text = shown("unlearn", run, "--client", "1", "--slice", "0", "--dry-run")
    assert "dry run: nothing was changed" in text
    assert "accuracy, AllSeq" in text
    planned = json.loads(shown("unlearn", run, "--client", "1", "--slice", "0", "--dry-run", "--json"))
    arguments = ("unlearn", run, "--client", "1", "--slice", "0", "--key", "a", "--json")
    done = json.loads(shown(*arguments))
    assert done["modules_died"] == len(planned["modules_dying"]) > 0
    assert done["live_modules"] == planned["after"]["live_modules"]
    assert Path(done["certificate"]).is_file()
    again = json.loads(shown(*arguments))
    assert again == done | {"repeated": True}
    assert "answered before" in shown("unlearn", run, "--client", "1", "--slice", "0", "--key", "a")
    assert "none depends on deleted data" in shown("audit", run)
    public = str(Path(run) / "signing.pub")
    assert "holds" in shown("certificate", "verify", done["certificate"], "--key", public)
    assert "6 trained now" not in shown("retrain", run)
    assert "0 trained now" in shown("retrain", run)


def test_records_from_a_file_from_standard_input_and_directly(run: str, tmp_path: Path) -> None:
    ids = sorted(json.loads(line)["id"] for line in ids_of(run))
    (tmp_path / "ids.txt").write_bytes(f"\ufeff{ids[0]}\r\n\n{ids[1]}".encode())
    base = ("unlearn", run, "--client", "client-0")
    assert "2 records deleted" in shown(*base, "--records", str(tmp_path / "ids.txt"))
    done = fedsgt(*base, "--records", "-", given=f"\ufeff{ids[2]}\n")
    assert "1 record deleted" in done.stdout
    (tmp_path / "one.txt").write_text(ids[3])
    both = shown(*base, "--record", ids[4], "--record", ids[5], "--records", str(tmp_path / "one.txt"))
    assert "3 records deleted" in both


def test_an_id_is_taken_exactly_as_it_is(tmp_path: Path) -> None:
    """An id with blanks, or with a character that only Python takes for the end of a line, is one id."""
    odd = (" r1 ", "r2\t", "a\rb", "a\x85b", "a\u2028b", "a\x0cb", "\u3000", "#r3", "r1")
    (tmp_path / "ids.txt").write_bytes("\n".join(odd).encode() + b"\r\n")
    assert read_ids(str(tmp_path / "ids.txt")) == odd


def test_blanks_around_an_id_are_said(source: Path) -> None:
    before = open_run(source).ledger.entries()
    done = fedsgt("unlearn", str(source), "--client", "0", "--record", "7 ")
    assert "it never registered a record '7 '; blanks around an id are part of it; nothing" in done.stderr
    assert (done.returncode, open_run(source).ledger.entries()) == (2, before)


def test_ids_that_are_no_text(tmp_path: Path, source: Path) -> None:
    for content in (b"\xff\xfer\x001\x00", b"r\x001\x00\n", b"PAR1\x00\x15\xff\xf0"):
        (tmp_path / "ids").write_bytes(content)
        done = fedsgt("unlearn", str(source), "--client", "0", "--records", str(tmp_path / "ids"))
        wanted = f"fedsgt: {tmp_path / 'ids'}: not a text file of record ids, one a line, in UTF-8\n"
        assert (done.returncode, done.stderr) == (2, wanted)


def ids_of(run: str) -> list[str]:
    from fedsgt.runs.records import load_clients

    client = load_clients(open_run(Path(run)).config).local[0]
    return [json.dumps({"id": record.id}) for record in client.records]


def test_a_batch(run: str, tmp_path: Path) -> None:
    batch = tmp_path / "batch.json"
    batch.write_text('[{"client": 0, "slices": [1]}, {"client": "client-2", "all": true}]')
    refused = fedsgt("unlearn", run, "--batch", str(batch), given="")
    assert refused.returncode == 2
    assert "this deletes everything that client client-2 (40 records) has; add --yes" in refused.stderr
    answer = shown("unlearn", run, "--batch", str(batch), "--yes")
    assert "request no. " in answer
    assert "client     client-2: 40 records (everything); 0 records are left" in answer


class Terminal(io.StringIO):
    """Standard input at which a person sits."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["y\n", "n\n", "\n"])
def test_a_whole_client_is_asked_for_on_a_terminal(
    run: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    head = open_run(Path(run)).ledger.head()
    done = fedsgt("unlearn", run, "--client", "1", "--all")
    assert "Delete everything that client client-1 (40 records) has in" in done.stderr
    if answer == "y\n":
        assert done.returncode == 0, done.stderr
        assert "40 records deleted" in done.stdout
    else:
        assert done.returncode == 2
        assert "not confirmed; nothing was changed" in done.stderr
        assert open_run(Path(run)).ledger.head() == head


def test_all_slices_are_a_whole_client_and_a_repeated_request_is_not_asked_for(run: str) -> None:
    arguments = ("unlearn", run, "--client", "1", "--slice", "0", "--slice", "1", "--key", "case-1")
    refused = fedsgt(*arguments, given="")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "add --yes; nothing was changed" in refused.stderr
    shown(*arguments, "--yes")
    assert "answered before" in shown(*arguments)


def test_hospitals_with_numbers_for_names_are_never_indices(tmp_path: Path, images: World) -> None:
    """The second of three hospitals is not client 1 (definition 11)."""
    names = {"c0": "101", "c1": "7", "c2": "23", "c3": "4"}
    rows = [replace(row, client=names[row.client]) for row in images.rows]
    data = write_rows(tmp_path / "data", rows, "image")
    tiny_trained(tmp_path / "run", images.config(f"data.source={data}"))
    run = str(tmp_path / "run")
    for number in ("1", "0", "2", "3"):
        done = fedsgt("unlearn", run, "--client", number, "--all", "--yes")
        assert done.returncode == 2
        assert f"client {number!r} is not in this run, which has 4 clients: 101, 23, 4, 7" in done.stderr
    planned = shown("unlearn", run, "--client", "7", "--all", "--dry-run")
    assert "client       7: 12 records (everything); 0 records are left" in planned
    assert "source       train.parquet: not changed, 12 rows stay in it (data.erase is tombstone" in planned
    answer = shown("unlearn", run, "--client", "7", "--all", "--yes")
    assert "client     7: 12 records (everything); 0 records are left" in answer
    assert "source     train.parquet: not changed, 12 rows stay in it" in answer


def test_the_answer_says_what_happened_to_the_owners_file(tmp_path: Path, images: World) -> None:
    data = write_rows(tmp_path / "data", images.rows, "image")
    tiny_trained(tmp_path / "run", images.config(f"data.source={data}", "data.erase=rewrite"))
    run = str(tmp_path / "run")
    arguments = ("unlearn", run, "--client", "c1", "--slice", "0")
    planned = json.loads(shown(*arguments, "--dry-run", "--json"))
    done = json.loads(shown(*arguments, "--json"))
    rows = done["records"]
    expected = [{"file": "train.parquet", "action": "rewritten", "rows": rows, "reason": None}]
    assert planned["sources"] == done["sources"] == expected
    assert set(planned["destroyed"] + planned["rewritten"]) == set(done["files_destroyed"])
    certificate = json.loads(Path(done["certificate"]).read_text())["body"]
    assert certificate["sources"] == expected


def test_a_file_that_cannot_be_written_is_said_loudly(
    tmp_path: Path, images: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_rows(tmp_path / "data", images.rows, "image")
    tiny_trained(tmp_path / "run", images.config(f"data.source={data}", "data.erase=rewrite"))

    def refused(path: Path, *others: object) -> int:
        raise InputError(f"{path}: deleted records cannot be taken out of it (no room)")

    monkeypatch.setattr(erasure, "rewrite_file", refused)
    done = fedsgt("unlearn", str(tmp_path / "run"), "--client", "c1", "--slice", "0", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (source,) = told["sources"]
    assert (source["action"], source["rows"]) == ("left", told["records"])
    assert "deleted records are still there, train.parquet: " in done.stderr
    certificate = json.loads(Path(told["certificate"]).read_text())["body"]
    assert certificate["sources"] == [source]
    assert "source" not in {artefact["kind"] for artefact in certificate["destroyed"]}
    assert str(tmp_path) not in json.dumps(certificate), "folders are nobody else's business"
    assert "still holds deleted records" in fedsgt("audit", str(tmp_path / "run")).stdout


WRONG: dict[str, tuple[list[str], str]] = {
    "no form": (["--client", "0"], "give --client with --record ID, --records FILE, --slice N or --all"),
    "two forms": (["--client", "0", "--all", "--slice", "0"], "give --client with"),
    "no client": (["--all"], "give --client with"),
    "batch and client": (["--batch", "x", "--client", "0"], "--batch stands alone"),
    "no file": (["--client", "0", "--records", "nowhere.txt"], "nowhere.txt: cannot be read"),
    "no batch": (["--batch", "nowhere.json"], "nowhere.json: cannot be read"),
    "client": (["--client", "hospital", "--all"], "client 'hospital' is not in this run"),
    "slice": (["--client", "0", "--slice", "5"], "client client-0 has no slice 5; it has 0 to 1"),
    "empty key": (["--client", "0", "--all", "--key", ""], "the idempotency key is empty"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_one_line_and_changes_nothing(name: str, source: Path) -> None:
    arguments, problem = WRONG[name]
    before = open_run(source).ledger.entries()
    done = fedsgt("unlearn", str(source), *arguments)
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1
    assert open_run(source).ledger.entries() == before


BATCHES = [
    "",
    "{}",
    "[]",
    "[1]",
    '[{"client": 1}]',
    '[{"client": 1, "all": false}]',
    '[{"client": 1, "slices": []}]',
    '[{"client": 1, "records": [1]}]',
    '[{"client": 1, "all": true, "slices": [0]}]',
    "\ufeff",
    "[" * 100_000 + "]" * 100_000,
]


@pytest.mark.parametrize("text", BATCHES, ids=lambda text: repr(text[:40]))
def test_a_batch_that_is_none(text: str, source: Path, tmp_path: Path) -> None:
    (tmp_path / "batch.json").write_text(text)
    done = fedsgt("unlearn", str(source), "--batch", str(tmp_path / "batch.json"))
    assert done.returncode == 2
    assert "batch.json" in done.stderr
    assert "Traceback" not in done.stderr
    assert "recursion" not in done.stderr


def test_a_policy_is_followed_after_the_answer(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "run")
    config = tmp_path / "run" / "run.toml"
    config.write_text(config.read_text().replace('retrain = "never"', 'retrain = "now"'))
    done = fedsgt("unlearn", str(tmp_path / "run"), "--client", "0", "--slice", "0")
    assert done.returncode == 0
    assert "retraining (now)" in done.stderr
    assert "trained now" in done.stdout
    assert "not due" in shown("retrain", str(tmp_path / "run"), "--if-due")


def test_an_interrupted_request_is_completed_and_said_so(run: str) -> None:
    from fedsgt.unlearning.request import Deletion
    from fedsgt.unlearning.unlearn import accept

    answer = accept(open_run(Path(run)), [Deletion("client-1", slices=(0,))])
    assert "not completed" in fedsgt("audit", run).stdout
    done = fedsgt("unlearn", run, "--client", "1", "--slice", "0")
    assert f"completed request no. {answer.position}, which had been interrupted; certificate" in done.stderr
    assert f"was deleted before, by request no. {answer.position}" in done.stderr
    assert "none depends on deleted data" in shown("audit", run)
