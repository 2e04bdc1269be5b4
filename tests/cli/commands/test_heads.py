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


def test_a_run_that_solves_none_says_so(images: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(images.config("heads.solve=false"), run, Quiet()).ledger.close()
    done = fedsgt("heads", str(run))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nothing was changed" in done.stderr
