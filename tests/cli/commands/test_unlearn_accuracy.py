"""`fedsgt unlearn` tells everybody what a deletion does to accuracy, and never fails because of that."""

from __future__ import annotations

import json
from pathlib import Path

from command import fedsgt, shown


def test_accuracy_is_known_after_a_deletion_without_measuring_it(run: str) -> None:
    whole = json.loads(shown("evaluate", run, "--json"))
    answer = json.loads(shown("unlearn", run, "--client", "client-1", "--slice", "0", "--json"))
    told = answer["accuracy"]
    assert told["before"] == whole["strategies"]["all"]
    assert told["expected"] == whole["expected"][0]["accuracy"]
    status = json.loads(shown("status", run, "--json"))
    assert status["accuracy"] == {**told["now"], "strategy": "all", "test_records": 40}
    again = json.loads(shown("evaluate", run, "--json"))
    assert again["strategies"]["all"] == told["now"], "as a fresh evaluation says"
    assert again["expected"] == status["expected_accuracy"]


def test_the_answer_in_words_and_where_it_is_not_known(run: str) -> None:
    arguments = ("unlearn", run, "--client", "client-1", "--slice", "0", "--key", "a")
    answer = shown(*arguments)
    assert f"accuracy   not known; fedsgt evaluate {run} measures it" in answer
    shown("evaluate", run)
    repeated = shown(*arguments)
    assert "accuracy   " in repeated
    assert "% before" not in repeated
    assert "test records)" in repeated


def test_trouble_with_accuracy_changes_neither_answer_nor_exit_code(run: str) -> None:
    shown("evaluate", run)
    # A folder in the place of a kept file cannot be read as one.
    for file in Path(run).glob("modules/*/test-*.safetensors"):
        file.unlink()
        file.mkdir()
        (file / "x").write_bytes(b"")
    done = fedsgt("unlearn", run, "--client", "client-1", "--slice", "0")
    assert done.returncode == 0, done.stderr
    assert "accuracy   not known" in done.stdout
    assert "certificate " in done.stdout


def test_a_subject_is_answered_with_accuracies_too(run: str) -> None:
    shown("evaluate", run)
    record = json.loads(shown("records", run, "--client", "client-0", "--json"))[0]["id"]
    (outcome,) = json.loads(shown("unlearn", run, "--subject", record, "--json"))
    assert outcome["answer"]["accuracy"]["before"] is not None
    assert outcome["answer"]["accuracy"]["now"] is not None
