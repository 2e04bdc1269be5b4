"""`fedsgt evaluate`: table, picture and JSON; runs that cannot be evaluated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import fedsgt, shown


def test_evaluate_scores_prefixes_and_strategies(trained: Path, tmp_path: Path) -> None:
    picture = tmp_path / "curves.svg"
    text = shown("evaluate", str(trained), "--plot", str(picture))
    assert "AllSeq" in text
    assert "LongSeq" in text
    assert picture.read_text().startswith("<?xml")
    found = json.loads(shown("evaluate", str(trained), "--json"))
    assert found["records"] == 60
    assert [len(curve) for curve in found["sequences"]] == [2, 2]
    assert set(found["strategies"]) == {"all", "min", "long", "merged"}
    cell = found["strategies"]["all"]
    assert 0 <= cell["low"] <= cell["accuracy"] <= cell["high"] <= 1
    assert "AllSeq" in shown("runs", str(trained.parent))


def test_evaluating_a_half_trained_run_says_so(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("run.toml", "run.json", *(path.name for path in trained.glob("ledger.sqlite*"))):
        (tmp_path / "run" / name).write_bytes((trained / name).read_bytes())
    done = fedsgt("evaluate", str(tmp_path / "run"))
    assert "no module is live; fedsgt train or retrain makes some" in done.stderr


@pytest.mark.parametrize(
    ("plot", "message"),
    [("curves.txt", "is no picture's name"), ("none/curves.svg", "the folder none does not exist")],
)
def test_a_picture_that_cannot_be_written_is_told_before_the_work(
    trained: Path, tmp_path: Path, plot: str, message: str
) -> None:
    done = fedsgt("evaluate", str(trained), "--plot", plot, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Evaluating" not in done.stderr
