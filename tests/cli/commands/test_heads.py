"""`fedsgt heads`: what it makes, and what it says of a run that solves none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from command import fedsgt, shown
from tiny_world import Quiet, World

from fedsgt.build.train import train


def test_what_is_missing_is_made(images: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(images.config("heads.solve=true"), run, Quiet()).ledger.close()
    for file in sorted((run / "statistics").glob("*/*"))[:6]:
        file.unlink()
    told = json.loads(shown("heads", str(run), "--json"))
    assert told == {"made": 6, "statistics": 40, "chains": 10, "records": 48}
    assert "nothing is missing; 40 statistics of 10 chains count, of 48 records" in shown("heads", str(run))
    shutil.rmtree(run / "statistics")
    assert "Run fedsgt heads: it makes the 40 missing statistics" in shown("status", str(run))


def test_damage_is_said_by_whoever_leaves_it_out(images: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(images.config("heads.solve=true"), run, Quiet()).ledger.close()
    (file,) = (run / "statistics" / "backbone").glob("1-*")
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    said = f"left out of the heads: 1 statistic of client c1 is damaged; fedsgt heads {run} makes it again"
    named = [{"client": "c1", "file": str(file.relative_to(run))}]
    for command in (("predict", str(run), "--test"), ("evaluate", str(run))):
        done = fedsgt(*command, "--json")
        assert (done.returncode, said in done.stderr) == (0, True), done.stderr
        assert json.loads(done.stdout)["damaged_statistics"] == named
        assert json.loads(done.stdout)["solved_from"] == 36
    merged = fedsgt("predict", str(run), "--test", "--strategy", "merged", "--json")
    assert "left out" not in merged.stderr, "it has trained heads"
    assert "1 statistic made now" in shown("heads", str(run))
    done = fedsgt("predict", str(run), "--test", "--json")
    assert ("left out" in done.stderr, json.loads(done.stdout)["damaged_statistics"]) == (False, [])


def test_after_a_deletion_trained_heads_are_not_called_solved(images: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(images.config("heads.solve=true", "serving.heads=trained"), run, Quiet()).ledger.close()
    told = shown("unlearn", str(run), "--client", "c0", "--slice", "0")
    assert "heads      statistics made again with what the client has left (trained heads serve)\n" in told
    assert "solved again" not in told


def test_a_run_that_solves_none_says_so(images: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(images.config("heads.solve=false"), run, Quiet()).ledger.close()
    done = fedsgt("heads", str(run))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nothing was changed" in done.stderr
    done = fedsgt("export", str(run), "--sequence", "0", "--heads", "statistics")
    assert "this run solves no heads (heads.solve is false)" in done.stderr
    assert (done.returncode, "fedsgt heads" in done.stderr) == (2, False)
