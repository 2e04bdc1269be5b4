"""Predictions and evaluations as objects: words, JSON and tables."""

from __future__ import annotations

import numpy as np
import pytest

from fedsgt.api.results.serving import Evaluation, Predictions
from fedsgt.serving.evaluation import Accuracy
from fedsgt.serving.evaluation import Evaluation as FullEvaluation
from fedsgt.serving.predictor import Predictions as FullPredictions
from fedsgt.serving.predictor import ServingSequence

FULL = FullPredictions(
    ids=("a", "b", "c", "d"),
    probabilities=np.array([[0.2, 0.8], [0.9, 0.1], [0.4, 0.6], [0.5, 0.5]]),
    position=7,
    strategy="all",
    sequences=(ServingSequence(0, (2, 1), 1.0, ("k", "l")),),
    problems=(),
    bare_backbone=False,
)


@pytest.mark.parametrize(("names", "shown"), [(None, ["1", "0"]), (["no", "yes"], ["yes", "no"])])
def test_answers_have_labels_and_names_if_there_are_any(names: list[str] | None, shown: list[str]) -> None:
    found = Predictions.of(FULL, names)
    assert found.labels == [1, 0, 1, 0]
    assert (found[0].id, found[0].probability, found[0].probabilities) == ("a", 0.8, (0.2, 0.8))
    assert repr(found) == (
        f"<Predictions of 4 records by AllSeq of 1 sequence, ledger position 7: a: {shown[0]} 80.0%, "
        f"b: {shown[1]} 90.0%, c: {shown[0]} 60.0%, ...>"
    )
    assert f"<td>{shown[0]}</td>" in found._repr_html_()
    assert ("name" in found.to_json()["records"][0]) is (names is not None)
    assert found.to_json()["sequences"] == [{"index": 0, "groups": (2, 1), "weight": 1.0, "solved": False}]
    assert found.accuracy is None


def test_the_share_of_right_answers_is_known_with_the_truth() -> None:
    found = Predictions.of(FULL, None, [1, 0, 0, 0])
    assert found.accuracy is not None
    assert found.accuracy.accuracy == 0.75
    assert found.about()["accuracy"] == 0.75


def test_an_evaluation_knows_what_is_served() -> None:
    full = FullEvaluation(
        3, 50, [[]], {"all": Accuracy(0.5, 0.4, 0.6), "long": Accuracy(0.7, 0.6, 0.8)}, None
    )
    found = Evaluation.of(full, "long")
    assert found.accuracy == Accuracy(0.7, 0.6, 0.8)
    assert repr(found) == "<Evaluation: LongSeq 70.0 % (60.0 to 80.0) on 50 test records>"
    assert found._repr_html_().count("<tr>") == 3
    nothing = Evaluation.of(FullEvaluation(3, 50, [[]], {}, None), "all")
    assert (nothing.accuracy, repr(nothing)) == (None, "<Evaluation: nothing is served>")
