"""A run from a file and overrides, or one line that says what is wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fedsgt.config import Config, load, to_toml
from fedsgt.config.load import from_values
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


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('[data]\nsource = ""\nclients = 3\n[grouping]\nslices = [1, 1]\n[plna]\nseed = 1\n')
    with pytest.raises(InputError) as error:
        load(path, ["plan.kind=x", "oops", "model.device=tpu", "model.mean=[0.5,0.5]"])
    head, *lines = str(error.value).split("\n  ")
    assert head == f"{path} with overrides: 7 mistakes"
    assert lines[0] == "'oops': not an override; write section.key=value, such as plan.budget=8"
    assert [line.partition(":")[0] for line in lines[1:]] == [
        *("data.source", "plan.kind", "model.device", "model.mean", "plna"),
        "grouping.slices",  # a contradiction, told although a key of the same section could be wrong
    ]
    assert error.value.lines() == [head, *(f"  {line}" for line in lines)]


def test_a_wrong_setting_takes_part_in_no_contradiction(tmp_path: Path) -> None:
    assert refused("grouping.groups=x", "plan.passes=1.0").startswith("grouping.groups: 'x' is not allowed")
    path = tmp_path / "my.toml"
    path.write_text("[data]\nclient = 2\n[grouping]\nslices = [5, 5]\n")
    assert "data.client: unknown key; did you mean clients?" in refused(path=path)
    path.write_text("grouping = 3\n[plan]\nshards = 11\n")
    assert "it should be a section, [grouping]" in refused(path=path)


def test_no_value_is_no_wish_for_a_default() -> None:
    """A shell makes data.source= of data.source="", and must not train on the digits for it."""
    wanted = "data.source: no value is given; give one, or leave it out for the default, 'digits'"
    assert refused("data.source=") == wanted
    assert refused('data.source=""').startswith("data.source: is empty; give one: ")
    assert load(None, ["data.test=x", "data.test="]).data.test is None


@pytest.mark.parametrize("numbers", ["[0.5]", "[0.5,0.4,0.3]"])
def test_channels_are_one_or_three(numbers: str) -> None:
    assert load(None, [f"model.mean={numbers}"]).model.mean is not None
    assert refused("model.std=[0.5,0.5]") == (
        "model.std: 2 numbers; give three, for red, green and blue, or one for all of them"
    )


def test_values_from_a_program() -> None:
    assert from_values({"plan": {"budget": 3}}).plan.budget == 3
    with pytest.raises(InputError, match=r"^here: plan: 3 is not allowed; it should be a section, \[plan\]$"):
        from_values({"plan": 3}, "here")


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
    assert "plan: 3 is not allowed; it should be a section, [plan]" in refused("plan.budget=1", path=path)


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    """With overrides it may be in one of these, so only the key is named."""
    path = tmp_path / "run.toml"
    path.write_text("[plan]\nbugdet = 4\n")
    assert refused(path=path).startswith(f"{path}: plan.bugdet: unknown key; did you mean budget?")
    assert refused("plan.seed=1", path=path).startswith("plan.bugdet: unknown key")
