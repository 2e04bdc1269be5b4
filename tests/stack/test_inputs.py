"""Records to batches: what decodes, what is cut or refused, and that errors name the record."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

from fedsgt.config.sections import Model
from fedsgt.errors import InputError
from fedsgt.stack.inputs import ImageInputs, Inputs, make_inputs, pad

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny

TEXTS = pytest.mark.parametrize("model", ["bert", "roberta", "distilbert"])


def picture(size: tuple[int, int] = (8, 8), form: str = "PNG", mode: str = "RGB") -> bytes:
    values = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    saved = io.BytesIO()
    Image.fromarray(values).convert(mode).save(saved, form)
    return saved.getvalue()


def refused(inputs: Inputs, content: tuple[Any, ...]) -> str:
    with pytest.raises(InputError, match=r"^record 'r7': ") as caught:
        inputs.item("r7", content)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "unknown format"),
        (b"garbage", "unknown format"),
        (picture()[: len(picture()) // 2], "truncated"),
        (picture(form="JPEG")[:-200], "Truncated"),
        (picture(form="GIF")[:20], "does not decode"),
        (picture().replace(b"IHDR", b"IHDX"), "does not decode"),
        (b"P5 99999 99999 255\n", "does not decode"),
    ],
)
def test_an_image_that_does_not_decode(tiny: Tiny, content: bytes, says: str) -> None:
    assert says in refused(tiny.inputs("vit"), (content,))


def test_any_cut_of_an_image_decodes_or_is_refused(tiny: Tiny) -> None:
    inputs = tiny.inputs("vit")
    for form in ("PNG", "JPEG", "BMP", "GIF", "WEBP"):
        whole = picture(form=form)
        for length in range(0, len(whole), 7):
            with suppress(InputError):
                assert inputs.item("r7", (whole[:length],))["pixels"].shape == (3, 8, 8)


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "CMYK"])
def test_every_colour_mode_gives_three_channels(tiny: Tiny, mode: str) -> None:
    form = "TIFF" if mode == "CMYK" else "PNG"
    item = tiny.inputs("vit").item("r7", (picture(form=form, mode=mode),))
    assert item["pixels"].shape == (3, 8, 8)
    assert item["pixels"].dtype == np.uint8


def test_pixels_are_scaled_and_normalised(tiny: Tiny) -> None:
    inputs = tiny.inputs("vit", mean=[0.1, 0.2, 0.3], std=[1.0, 2.0, 4.0])
    black = io.BytesIO()
    Image.new("RGB", (31, 17), (255, 0, 51)).save(black, "PNG")
    values = inputs.batch([inputs.item("r7", (black.getvalue(),))] * 2)["pixel_values"]
    assert values.shape == (2, 3, 8, 8)
    for channel, expected in enumerate((0.9, -0.1, -0.025)):
        assert torch.allclose(values[:, channel], torch.tensor(expected), atol=1e-6)


def test_text_where_an_image_is_expected_and_the_other_way(tiny: Tiny) -> None:
    assert "text where an image" in refused(tiny.inputs("vit"), ("a text",))
    for content in ((b"bytes",), (), ("one", "two", "three"), ("one", b"two")):
        assert "one or two texts" in refused(tiny.inputs("bert"), content)


@pytest.mark.parametrize("name", ["mean", "std"])
def test_one_value_is_for_all_colours(tiny: Tiny, name: str) -> None:
    one, three = (tiny.inputs("vit", **{name: [0.25] * count}) for count in (1, 3))
    assert one.describe() == three.describe()


def test_a_size_that_patches_do_not_fill(tiny: Tiny) -> None:
    with pytest.raises(InputError, match=r"model.image_size: 10 is no multiple of the model's patch of 4"):
        tiny.inputs("vit", image_size=10)


def test_another_size_than_the_models_own(tiny: Tiny) -> None:
    inputs = tiny.inputs("vit", image_size=12)
    batch = inputs.batch([inputs.item("r7", (picture(),))])
    assert batch["pixel_values"].shape == (1, 3, 12, 12)
    stack = tiny.stack("vit", layers=1)
    (module,) = tiny.modules(stack, 1)
    assert stack.lower(batch).shape == (1, 10, 32)
    whole = tiny.logits(stack, [module], batch)
    assert torch.allclose(tiny.logits(stack, [module], {"hidden": stack.lower(batch)}), whole, atol=1e-5)


def with_preprocessor(tiny: Tiny, folder: Path, text: str) -> ImageInputs:
    shutil.copytree(tiny.folders["vit"], folder)
    (folder / "preprocessor_config.json").write_text(text)
    made = make_inputs(Model(backbone=str(folder)), tiny.untouched("vit"))
    assert isinstance(made, ImageInputs)
    return made


def test_the_checkpoints_own_normalisation(tiny: Tiny, tmp_path: Path) -> None:
    stored = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}
    made = with_preprocessor(tiny, tmp_path / "with", json.dumps(stored))
    assert (made.mean, made.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    plain = tiny.inputs("vit").describe()
    assert plain == {"task": "image", "size": 8, "mean": [0.5] * 3, "std": [0.5] * 3}
    grey = with_preprocessor(tiny, tmp_path / "grey", json.dumps({"image_mean": [0.1], "image_std": [0.4]}))
    assert (grey.mean, grey.std) == ((0.1,) * 3, (0.4,) * 3)
    with pytest.raises(InputError, match=r"model.mean: the checkpoint has 2 numbers; give three"):
        with_preprocessor(tiny, tmp_path / "odd", json.dumps({"image_mean": [0.1, 0.2]}))
    with pytest.raises(InputError, match=r"no readable preprocessor_config.json .*; give model.mean and"):
        with_preprocessor(tiny, tmp_path / "broken", "what")


def words(count: int) -> str:
    return " ".join(["w1"] * count)


@TEXTS
def test_a_text_that_is_too_long(tiny: Tiny, model: str) -> None:
    strict, cutting = tiny.inputs(model, max_length=6), tiny.inputs(model, max_length=6, too_long="cut")
    assert len(strict.item("r7", (words(4),))["input_ids"]) == 6
    assert "7 tokens are more than 6; shorten it" in refused(strict, (words(5),))
    cut = cutting.item("r7", (words(50),))["input_ids"].tolist()
    assert cut == [2, 5, 5, 5, 5, 3]
    assert len(cutting.item("r7", (words(50), words(50)))["input_ids"]) == 6


@pytest.mark.parametrize(("model", "most"), [("bert", 34), ("distilbert", 34), ("roberta", 33)])
def test_the_models_last_position_works_and_one_more_is_refused(tiny: Tiny, model: str, most: int) -> None:
    """RoBERTa's positions start behind its padding index, 0 here."""
    inputs = tiny.inputs(model)
    assert inputs.describe()["longest"] == most
    longest = inputs.batch([inputs.item("r7", (words(most - 2),))])
    with torch.no_grad():
        assert tiny.untouched(model).model(**longest).logits.isfinite().all()
    refused(inputs, (words(most - 1),))
    with pytest.raises(InputError, match=f"model.max_length: {most + 1} is more than the model's {most} pos"):
        tiny.inputs(model, max_length=most + 1)


@TEXTS
def test_pairs(tiny: Tiny, model: str) -> None:
    inputs = tiny.inputs(model)
    item = inputs.item("r7", ("w1 w2", "w3"))
    assert item["input_ids"].tolist() == [2, 5, 6, 3, 7, 3]
    assert ("token_type_ids" in item) == (model != "roberta")
    batch = inputs.batch([item, inputs.item("r8", ("w1",))])
    if model != "roberta":
        assert batch["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1], [0] * 6]
    stack = tiny.stack(model)
    assert tiny.logits(stack, tiny.modules(stack, 1), batch).shape == (2, 5)


@TEXTS
def test_a_batch_is_padded_to_its_longest_and_no_further(tiny: Tiny, model: str) -> None:
    inputs = tiny.inputs(model)
    items = [inputs.item(str(count), (words(count),)) for count in (1, 4, 2)]
    batch = inputs.batch(items)
    assert batch["input_ids"].tolist() == [[2, 5, 3, 0, 0, 0], [2, 5, 5, 5, 5, 3], [2, 5, 5, 3, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0, 0], [1] * 6, [1, 1, 1, 1, 0, 0]]
    with torch.no_grad():
        together = tiny.untouched(model).model(**batch).logits
        alone = tiny.untouched(model).model(**inputs.batch(items[:1])).logits
    assert torch.allclose(together[:1], alone, atol=1e-5)


def test_rows_of_any_shape_are_padded_behind() -> None:
    rows = [np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)]
    assert pad(rows, -1).tolist() == [[[1.0] * 3, [1.0] * 3], [[1.0] * 3, [-1.0] * 3]]


def test_the_description_stays_the_same_in_use(tiny: Tiny) -> None:
    """The description is part of every module's key, and a tokenizer remembers how it was last called."""
    inputs = tiny.inputs("bert", max_length=5, too_long="cut")
    before = inputs.describe()
    inputs.item("r7", (words(50),))
    assert inputs.describe() == before == tiny.inputs("bert", max_length=5, too_long="cut").describe()
    for other in ({"max_length": 6, "too_long": "cut"}, {"max_length": 5}):
        assert tiny.inputs("bert", **other).describe() != before


def test_another_tokenizer_is_another_description(tiny: Tiny, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny.folders["bert"], tmp_path / "bert")
    rules = json.loads((folder / "tokenizer.json").read_text())
    rules["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    (folder / "tokenizer.json").write_text(json.dumps(rules))
    changed = make_inputs(Model(backbone=str(folder), task="text"), tiny.untouched("bert"))
    assert changed.describe() != tiny.inputs("bert").describe()


@TEXTS
def test_a_model_without_a_tokenizer(tiny: Tiny, tmp_path: Path, model: str) -> None:
    settings = Model(backbone=str(tmp_path), task="text")
    shutil.copy(tiny.folders[model] / "config.json", tmp_path)
    with pytest.raises(InputError, match=r"has no usable tokenizer \(no vocabulary\)"):
        make_inputs(settings, tiny.untouched(model))
    (tmp_path / "tokenizer.json").write_text("what")
    with pytest.raises(InputError, match="has no usable tokenizer") as caught:
        make_inputs(settings, tiny.untouched(model))
    assert "\n" not in str(caught.value)
