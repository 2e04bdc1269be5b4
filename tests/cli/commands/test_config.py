"""`fedsgt config`: the resolved settings and their schema."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from command import fedsgt, shown
from tiny_world import World

from fedsgt.config import to_toml


def test_config_show_and_schema() -> None:
    assert "budget = 8" in shown("config", "show", "-s", "plan.budget=8")
    assert json.loads(shown("config", "show", "--json"))["grouping"]["groups"] == 10
    schema = json.loads(shown("config", "schema"))
    assert schema["properties"].keys() == {
        *("data", "grouping", "plan", "model", "peft", "training", "heads", "privacy", "engine", "store"),
        *("unlearning", "serving"),
    }


def test_config_errors_have_exit_code_2() -> None:
    done = fedsgt("config", "show", "-s", "plan.bugdet=8")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean budget" in done.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [(("unlaern",), "'unlearn'"), (("config", "shwo"), "'show'"), (("retrai",), "'retrain'")],
)
def test_a_misspelt_command_is_answered_with_the_nearest_once(words: tuple[str, ...], meant: str) -> None:
    done = fedsgt(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert (done.stderr.count("Did you mean"), done.stderr.count(meant)) == (1, 1)


@pytest.fixture
def file(images: World, tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(to_toml(images.config("plan.kind=tree", "plan.passes=3", "grouping.limits=2")))
    return str(path)


def test_config_shows_a_system_over_the_file_and_under_what_is_set(file: str) -> None:
    text = shown(
        "config", "show", file, "--system", "fedcio", "--set", "grouping.groups=4", "-s", "plan.shards=4"
    )
    values = tomllib.loads(text)
    assert (values["plan"]["shards"], values["grouping"]["groups"]) == (4, 4)
    assert values["training"]["start"] == "common"
    assert "# passes is not given" in text
    assert "# limits is not given" in text
