"""A run on a read-only mount can be looked at by every command, and is changed by none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from read_only import commands, snapshot, start
from tiny_deletions import record_in, trained_run
from tiny_world import World

from fedsgt.runs.artefacts import CONFIG
from fedsgt.runs.folder import open_run
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, unlearn

WATCH = """if True:
    import json, sys
    from pathlib import Path
    from fedsgt.runs.folder import open_run
    from fedsgt.runs.health import module_health
    folder = open_run(Path(sys.argv[1]))
    assert not folder.writable
    for line in sys.stdin:
        live = folder.live()
        served = module_health(folder, live).prefixes
        print(json.dumps([live.position, sorted(live.dead), served]), flush=True)
"""


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run")


@pytest.fixture
def run(source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(source, tmp_path / "run"))


def test_it_can_be_looked_at(images: World, run: Path, tmp_path: Path) -> None:
    """The deletion is only in the WAL file, as the process that accepted it has the ledger open."""
    folder = open_run(run)
    client, record = record_in(images, folder, 1)
    unlearn(folder, [Deletion(client, records=(record,))])
    assert (run / "ledger.sqlite-wal").stat().st_size > 0
    (certificate,) = (run / "certificates").iterdir()
    ids = tmp_path / "ids.txt"
    other, another = record_in(images, folder, 0)
    ids.write_text(another)
    before, name = snapshot(run), str(run)
    dry = ("unlearn", name, "--client", other, "--records", str(ids), "--dry-run", "--json")
    status, show, predict, verify, *others = commands(
        run,
        ("status", name, "--json"),
        ("show", name, "--json"),
        ("predict", name, "--test"),
        ("verify", name, "--sample", "1"),
        ("audit", name),
        ("records", name, "--client", client),
        ("report", name, "-o", str(tmp_path / "page.html")),
        dry,
        ("certificate", "show", str(certificate)),
        ("runs", str(tmp_path)),
    )
    everything = [status, show, predict, verify, *others]
    assert [done.returncode for done in everything] == [0] * len(everything), everything
    assert snapshot(run) == before
    position = folder.live().position
    found = json.loads(status.stdout)
    assert (found["position"], found["groups"]["dead"]) == (position, [1])
    assert json.loads(predict.stdout)["position"] == position
    used = {group for one in json.loads(predict.stdout)["sequences"] for group in one["groups"]}
    assert used == {0, 2}
    assert "no accuracies are measured" in others[2].stderr


def test_commands_that_write_refuse_in_one_line(images: World, run: Path, tmp_path: Path) -> None:
    client, _ = record_in(images, open_run(run), 1)
    before, name = snapshot(run), str(run)
    refused = commands(
        run,
        ("unlearn", name, "--client", client, "--slice", "0"),
        ("retrain", name),
        ("train", str(run / CONFIG), "-o", name),
        ("rejoin", name, "--client", client, "--data", str(tmp_path / "none.parquet")),
        ("evaluate", name),
        ("export", name, "--sequence", "0"),
        ("report", name, "--no-evaluate"),
    )
    for done in refused:
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
        assert "this user can only read this run; " in done.stderr
    assert all("nothing was changed" in done.stderr for done in refused[:-1])
    assert "give a file outside with -o" in refused[-1].stderr
    assert snapshot(run) == before


def test_an_unfinished_request_is_shown_and_not_finished(images: World, run: Path) -> None:
    folder = open_run(run)
    client, record = record_in(images, folder, 1)
    position = accept(folder, [Deletion(client, records=(record,))]).position
    before = snapshot(run)
    verify, audit, status = commands(
        run,
        ("verify", str(run), "--sample", "1", "--json"),
        ("audit", str(run)),
        ("status", str(run), "--json"),
    )
    assert (verify.returncode, audit.returncode) == (1, 1)
    assert json.loads(verify.stdout)["unfinished"] == [position]
    assert "not completed" in audit.stdout
    assert {one["verdict"] for one in json.loads(status.stdout)["problems"]} == {"not destroyed"}
    assert snapshot(run) == before


def test_a_deletion_is_seen_by_a_reader_that_has_the_run_open(images: World, run: Path) -> None:
    folder = open_run(run)
    first = folder.live().position
    child = start(run, "-c", WATCH, str(run))
    assert child.stdin is not None
    assert child.stdout is not None
    with child:

        def look() -> list[object]:
            print("look", file=child.stdin, flush=True)
            return list(json.loads(child.stdout.readline()))  # type: ignore[union-attr]

        assert look()[:2] == [first, []]
        for group in (1, 2):
            database = (run / "ledger.sqlite").read_bytes()
            client, record = record_in(images, folder, group)
            unlearn(folder, [Deletion(client, records=(record,))])
            assert (run / "ledger.sqlite").read_bytes() == database, "it is in the WAL file only"
            live = folder.live()
            served = [list(prefix) for prefix in live.prefixes(folder.present())]
            assert look() == [live.position, sorted(live.dead), served]
        folder.ledger.close()  # moves the content of the WAL file into the database
        assert not (run / "ledger.sqlite-wal").exists()
        assert look()[1] == [1, 2]
        child.stdin.close()
        assert child.wait(60) == 0
