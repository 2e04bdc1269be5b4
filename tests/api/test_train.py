"""Training from Python: configurations in every form, events, and errors that name what was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_world import Quiet, World, made, trained

import fedsgt
from fedsgt.api.train import read_config
from fedsgt.config import Config, to_toml


def test_a_file_a_config_and_a_dict_are_the_same(tmp_path: Path) -> None:
    values: dict[str, Any] = {"grouping": {"groups": 4}, "data": {"seed": 3}}
    (tmp_path / "my.toml").write_text("[grouping]\ngroups = 4\n[data]\nseed = 3\n")
    config = Config.model_validate(values)
    for given in (values, config, tmp_path / "my.toml", str(tmp_path / "my.toml")):
        assert read_config(given) == config
        assert read_config(given, "fedavg").grouping.groups == 1
        assert read_config(given, None, ["grouping.groups=6"]).grouping.groups == 6
    assert values == {"grouping": {"groups": 4}, "data": {"seed": 3}}, "the dict itself was changed"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (7, "config is of type int; allowed: a TOML file's path, a fedsgt.Config, a dict"),
        ({"grouping": {"gruops": 4}}, "grouping.gruops: .*groups"),
        ({"grouping": [4]}, "grouping"),
        ("nowhere.toml", "nowhere.toml: no such file"),
    ],
)
def test_wrong_configurations_are_named(config: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(fedsgt.InputError, match=told):
        fedsgt.train(config, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_trained_and_told_about(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(to_toml(images.config()))
    quiet = Quiet()
    run = fedsgt.train("my.toml", progress=quiet)
    assert run.path == tmp_path / "runs" / "my"
    assert made(run.folder) == trained(tmp_path / "other", images.config())
    assert run.training is not None
    assert run.training.trained == run.training.modules == len(quiet.modules)
    assert run.training.to_json()["dead"] == 0
    again = fedsgt.train("my.toml", progress=False)
    assert again.training is not None
    assert again.training.trained == 0


@pytest.mark.parametrize(("progress", "lines"), [(True, True), (False, False), (None, False)])
def test_lines_are_printed_where_they_are_asked_for(
    progress: bool | None, lines: bool, images: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fedsgt.train(images.config("grouping.groups=2"), tmp_path / "run", progress=progress)
    assert ("module 1 of" in capsys.readouterr().err) is lines


def test_the_output_must_be_named_where_nothing_names_it(images: World, tmp_path: Path) -> None:
    with pytest.raises(fedsgt.InputError, match="output: not given; name the run's folder"):
        fedsgt.train(images.config())
    for wrong in (7, ""):
        with pytest.raises(fedsgt.InputError, match=r"output is (of type int|empty); allowed: a path"):
            fedsgt.train(images.config(), wrong)  # type: ignore[arg-type]


def test_all_mistakes_are_told_before_anything_is_made(images: World, tmp_path: Path) -> None:
    config = images.config(f"data.source={tmp_path / 'nowhere.parquet'}", "model.backbone=./nowhere")
    with pytest.raises(fedsgt.InputError) as error:
        fedsgt.train(config, tmp_path / "run")
    assert "nowhere.parquet" in str(error.value)
    assert "model.backbone: './nowhere'" in str(error.value)
    assert not (tmp_path / "run").exists()
