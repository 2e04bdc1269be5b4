"""Accuracies of a run: the table, and the picture."""

from __future__ import annotations

from pathlib import Path

from fedsgt.cli.views.evaluation import draw_evaluation, evaluation_text
from fedsgt.serving.evaluation import Accuracy, Evaluation


def cell(accuracy: float) -> Accuracy:
    return Accuracy(accuracy, accuracy - 0.05, accuracy + 0.05)


FOUND = Evaluation(
    position=4,
    records=1,
    sequences=[[cell(0.5), cell(0.625)], [], [cell(0.25)]],
    strategies={"all": cell(0.75), "merged": cell(0.5)},
    agreement=0.875,
)


def test_sequences_go_down_and_modules_across() -> None:
    """A sequence without a live module keeps its line, so that numbers of sequences stay right."""
    assert evaluation_text(FOUND).splitlines() == [
        "accuracy on 1 test record, in percent, by modules of the sequence",
        "",
        "sequence        1      2",
        "       0     50.0   62.5",
        "       1  ",
        "       2     25.0",
        "",
        "AllSeq     75.0  (95 % interval 70.0 to 80.0)",
        "merged     50.0  (95 % interval 45.0 to 55.0)",
        "",
        "merged gives AllSeq's label to 87.5 % of the test records",
    ]


def test_the_picture_names_every_strategy(tmp_path: Path) -> None:
    import matplotlib as mpl

    path = tmp_path / "curves.svg"
    with mpl.rc_context({"svg.fonttype": "none"}):  # letters as text, not as outlines
        draw_evaluation(path, FOUND)
    text = path.read_text(encoding="utf-8")
    for words in ("AllSeq 75.0%", "merged 50.0%", "one sequence", "modules of the sequence"):
        assert words in text
