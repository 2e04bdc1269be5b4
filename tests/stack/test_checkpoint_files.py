"""Files of a model, looked at without torch: where they are, and what does not fit the settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fedsgt.config.sections import Model, Peft
from fedsgt.errors import InputError
from fedsgt.stack.checkpoint_files import backbone_problems, check_task, locate

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny


def problems(backbone: str | Path, layers: Any = "all", **settings: Any) -> list[str]:
    return backbone_problems(Model(backbone=str(backbone), **settings), Peft(layers=layers))


def test_models_that_fit(tiny: Tiny) -> None:
    for name, folder in tiny.folders.items():
        assert problems(folder, task=tiny.task(name)) == []
    assert problems("fedsgt/tiny-vit") == []


def test_all_that_does_not_fit_is_told(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((tiny.folders["vit"] / "config.json").read_text())
    found = problems(tmp_path, layers=40, task="image", image_size=10)
    assert [line.partition(";")[0] for line in found] == [
        f"model.backbone: '{tmp_path}' has no weights",
        "model.image_size: 10 is no multiple of the model's patch of 4 pixels",
        "peft.layers: 40 is more than the model's 3 layers",
    ]
    (told,) = problems(tiny.folders["bert"], task="image")
    assert told.endswith(
        '(bert), and model.task is image; set model.task = "text", or give a backbone for images'
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "3"])
def test_settings_that_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    (told,) = problems(tmp_path)
    assert told == f"model.backbone: '{tmp_path}': its config.json is not the JSON of a model; fetch it again"


@pytest.mark.parametrize("values", [{}, {"model_type": "unheard-of"}, {"model_type": [1], "patch_size": "x"}])
def test_nothing_is_said_of_what_nobody_knows(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(values))
    (tmp_path / "model.safetensors").touch()
    assert problems(tmp_path, layers=5, image_size=7) == []
    check_task(str(tmp_path), "text")


def test_only_owner_and_name_may_be_asked_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert locate("some-owner/some-model") == "some-owner/some-model"
    assert problems("some-owner/some-model") == []
    for name in ("some-model", "./a/b", "a/b/c", "a b/c", "~/x", "model.bin", "owner/", "\x1b[2J/x", "a\0b"):
        with pytest.raises(
            InputError, match=r"does not exist.*\(allowed: a folder with a config.json, or owner/name"
        ):
            locate(name)
        assert len(problems(name)) == 1
    # With a folder of that name, it is a slip in a path.
    (tmp_path / "some-owner").mkdir()
    (told,) = problems("some-owner/some-model")
    assert "'some-owner/some-model' does not exist; in some-owner: nothing" in told


def test_what_may_not_be_fetched_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (told,) = problems("some-owner/some-model")
    assert told.endswith("not in the hub's cache, and HF_HUB_OFFLINE forbids to fetch it")
