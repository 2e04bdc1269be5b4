"""`fedsgt verify`: exit codes, and what a person or a program reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from tiny_world import Quiet, World
from typer.testing import CliRunner

from fedsgt.build.train import train
from fedsgt.cli.commands.verify import verify as command
from fedsgt.proof import verify as verify_module
from fedsgt.proof.rebuild_process import Verdict
from fedsgt.proof.verify import Verification, VerifiedModule
from fedsgt.runs.folder import open_run
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept

KEY = "0123456789abcdef" * 4


@pytest.fixture(scope="module")
def run(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("command") / "run"
    train(images.config("grouping.groups=2"), path, Quiet()).ledger.close()
    return path


def called(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def found(*verdicts: Verdict, **about: Any) -> Verification:
    modules = tuple(VerifiedModule(KEY, (0, 1), verdict, f"why {verdict}") for verdict in verdicts)
    settings: dict[str, Any] = {
        "served": 9,
        "sample": None,
        "seed": 5,
        "position": 4,
        "unfinished": (),
        "data_dependent_choices": (),
        "seconds": 1.2,
    }
    return Verification(modules=modules, **(settings | about))


CASES: list[tuple[Verification, int, str]] = [
    (found("same", "same"), 0, "2 same; of 9 modules served at ledger position 4"),
    (found("same", "same"), 0, "passed: every module looked at"),
    (found(), 0, "no module is served at ledger position 4: there is nothing to verify"),
    (found("same", "different"), 1, f"{KEY[:12]}  0 1             different: why different"),
    (found("same", "damaged"), 1, "FAILED"),
    (found("same", "not destroyed"), 1, "FAILED"),
    (found("not comparable", "different"), 1, "FAILED"),
    (found("same", "not comparable"), 3, "UNDECIDED"),
    (found("same", sample=1), 0, "a sample of 1 and parents; --seed 5 draws it again"),
    (found("same", unfinished=(3, 8)), 0, "unfinished requests, no. 3, 8"),
    (found("same", data_dependent_choices=("grouping: bac",)), 0, "weaker than it looks: grouping: bac"),
]


@pytest.mark.parametrize(("result", "code", "text"), CASES)
def test_exit_code_and_text(
    run: Path, monkeypatch: pytest.MonkeyPatch, result: Verification, code: int, text: str
) -> None:
    monkeypatch.setattr(verify_module, "verify", lambda *arguments, **named: result)
    done = called(run)
    assert done.exit_code == code
    assert text in done.stdout
    as_json = called(run, "--json")
    assert as_json.exit_code == code
    assert json.loads(as_json.stdout) == {"run": str(run), **json.loads(json.dumps(result.to_json()))}


def test_for_real(run: Path) -> None:
    """An interrupted request is finished first."""
    answer = accept(open_run(run), [Deletion("c0", slices=(0,))])
    done = called(run, "--sample", 2, "--seed", 1, "--json")
    assert done.exit_code == 0, done.output
    assert "which had been interrupted; certificate" in done.stderr
    assert "Rebuilding: 100%" in done.stderr
    shown = json.loads(done.stdout)
    assert (shown["passed"], shown["sample"], shown["seed"]) == (True, 2, 1)
    assert shown["unfinished"] == []
    assert shown["position"] > answer.position
    assert shown["counts"] == {"same": shown["served"]}


def test_numbers_that_are_not_allowed(run: Path) -> None:
    for option in ("--sample", "--seed"):
        assert called(run, option, -1).exit_code == 2
