"""A run from a file and overrides, or one line that says what is wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fedsgt.config import Config, load, to_toml
from fedsgt.errors import InputError


def refused(*overrides: str, path: Path | None = None) -> str:
    with pytest.raises(InputError) as error:
        load(path, overrides)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_a_file_and_overrides_over_it(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('[plan]\nkind = "greedy"\nbudget = 4\n[grouping]\ngroups = 6\n')
    run = load(path, ["plan.budget=8", "grouping.limits=[1,2,3,4,5,6,6,6,6,6]", "data.source=some/folder"])
    assert (run.plan.kind, run.plan.budget, run.grouping.groups) == ("greedy", 8, 6)
    assert run.grouping.limits == [1, 2, 3, 4, 5, 6, 6, 6, 6, 6]
    assert run.data.source == "some/folder"


def test_the_last_override_wins() -> None:
    assert load(None, ["plan.budget=3", "plan.budget=4"]).plan.budget == 4


def test_what_is_shown_loads_again_as_the_same_run(tmp_path: Path) -> None:
    run = load(None, ["plan.kind=tree", "grouping.slices=[1,2,3,4,5,6,7,8,9,10]", "training.clip=0.5"])
    path = tmp_path / "shown.toml"
    path.write_text(to_toml(run))
    assert load(path) == run
    assert set(tomllib.loads(to_toml(run))) == set(Config.model_fields)


@pytest.mark.parametrize("override", ["plan.budget", "budget=8", "plan.budget.x=8", "=8", ".budget=8"])
def test_what_is_no_override_says_how_to_write_one(override: str) -> None:
    assert "section.key=value" in refused(override)


def test_several_problems_are_counted() -> None:
    assert "(and 1 more)" in refused("plan.budget=0", "plan.kind=x")


def test_a_missing_file_a_folder_and_no_toml(tmp_path: Path) -> None:
    assert "no such file" in refused(path=tmp_path / "none.toml")
    assert "cannot be read" in refused(path=tmp_path)
    path = tmp_path / "bad.toml"
    path.write_text("plan = [")
    assert "not TOML" in refused(path=path)
    path.write_bytes(b"\xff\xfe")
    assert "cannot be read" in refused(path=path)
    path.write_text("plan = 3")
    assert "plan: 3" in refused(path=path)
    assert "not a section" in refused("plan.budget=1", path=path)


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    """With overrides it may be in one of these, so only the key is named."""
    path = tmp_path / "run.toml"
    path.write_text("[plan]\nbugdet = 4\n")
    assert refused(path=path).startswith(f"{path}: plan.bugdet: unknown key; did you mean budget?")
    assert refused("plan.seed=1", path=path).startswith("plan.bugdet: unknown key")
