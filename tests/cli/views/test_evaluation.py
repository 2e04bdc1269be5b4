"""Accuracies of a run: the table, and the picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fedsgt.cli.views.evaluation import draw_evaluation, evaluation_text
from fedsgt.serving.accuracy import Accuracy, Evaluation, ExpectedAccuracy


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


def test_the_strategy_in_use_a_better_one_and_what_to_expect() -> None:
    found = replace(
        FOUND,
        records=200,
        strategies={"all": cell(0.48), "long": cell(0.635)},
        only_right={"all": {"long": 0}, "long": {"all": 31}},
        agreement=None,
        expected_strategy="all",
        expected=[ExpectedAccuracy(1, 0.455, 0.0, 1.0), ExpectedAccuracy(2, None, 0.0, 0.125)],
    )
    lines = evaluation_text(found, "all").splitlines()
    assert lines[7:] == [
        "AllSeq     48.0  (95 % interval 43.0 to 53.0), served",
        "LongSeq    63.5  (95 % interval 58.5 to 68.5)",
        "",
        'LongSeq would be right on 63.5% of the test records (AllSeq: 48.0%): set serving.strategy = "long"',
        "",
        "expected after further requests, in percent: accuracy of AllSeq if something is live, and the "
        "chance of that",
        "requests        1      2",
        "accuracy     45.5       ",
        "alive       100.0   12.5",
    ]
    assert not any("would be right" in line for line in evaluation_text(found, "long").splitlines())


def test_a_forecast_of_another_strategy_says_so() -> None:
    ahead = [ExpectedAccuracy(1, 0.455, 0.0, 1.0)]
    found = replace(FOUND, expected_strategy="all", expected=ahead)
    assert "not of merged, which serves and has no forecast" in evaluation_text(found, "merged")
    assert "has no forecast" not in evaluation_text(found, "all")
    solved = replace(found, floor=cell(0.4), solved_from=9, trained={"all": cell(0.3)})
    text = evaluation_text(solved, "merged")
    assert "accuracy of AllSeq; with solved heads, not of merged, which serves" in text
    assert text.index("trained heads of the same modules") < text.index("merged  ")
    assert set(solved.with_trained_heads()) == {"all", "merged"}


def test_the_picture_names_every_strategy(tmp_path: Path) -> None:
    import matplotlib as mpl

    path = tmp_path / "curves.svg"
    with mpl.rc_context({"svg.fonttype": "none"}):  # letters as text, not as outlines
        draw_evaluation(path, FOUND)
    text = path.read_text(encoding="utf-8")
    for words in ("AllSeq 75.0%", "merged 50.0%", "one sequence", "modules of the sequence"):
        assert words in text
