"""Exported adapters run under stock PEFT with the stack's own logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load_file, save_file

from fedsgt.config.sections import Peft
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.peft_export import CONFIG, WEIGHTS, export_module
from fedsgt.stack.peft_import import import_module
from fedsgt.stack.stack import Stack

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny

LINEAR_KINDS = pytest.mark.parametrize("kind", ["lora", "ia3"])


def under_peft(tiny: Tiny, folder: Path, task: str, adapter: Path, batch: dict[str, Any]) -> torch.Tensor:
    torch.manual_seed(99)  # whatever the head starts from there must not matter
    wrapped = PeftModel.from_pretrained(tiny.plain(folder, task), adapter)
    with torch.no_grad():
        found: torch.Tensor = wrapped(**batch).logits
    return found


def assert_runs_the_same(tiny: Tiny, model: str, stack: Stack, modules: list[Tensors], adapter: Path) -> None:
    batch = tiny.batch(model)
    ours = tiny.logits(stack, modules, batch)
    export_module(stack, modules, adapter, str(tiny.folders[model]))
    theirs = under_peft(tiny, tiny.folders[model], tiny.task(model), adapter, batch)
    assert torch.allclose(ours, theirs, atol=1e-5)
    without = tiny.logits(stack, [fresh_with_head_of(stack, modules[-1])], batch)
    assert not torch.allclose(ours, without, atol=1e-3), "the modules do nothing: the test shows nothing"


def fresh_with_head_of(stack: Stack, module: Tensors) -> Tensors:
    return stack.finish(stack.begin(0, module))


@LINEAR_KINDS
@pytest.mark.parametrize("count", [1, 3])
def test_stock_peft_gives_the_same_logits(
    tiny: Tiny, tmp_path: Path, model: str, kind: str, count: int
) -> None:
    stack = tiny.stack(model, kind, layers=2)
    assert_runs_the_same(tiny, model, stack, tiny.modules(stack, count), tmp_path / "adapter")


@pytest.mark.parametrize("model", ["bert", "roberta"])
@pytest.mark.parametrize("count", [1, 3])
def test_stock_peft_runs_exported_prefixes(tiny: Tiny, tmp_path: Path, model: str, count: int) -> None:
    stack = tiny.stack(model, "prefix")
    assert_runs_the_same(tiny, model, stack, tiny.modules(stack, count), tmp_path / "adapter")


@pytest.mark.parametrize(("model", "most"), [("bert", 31), ("roberta", 30)])
def test_texts_that_virtual_tokens_leave_no_room_for_fail(
    tiny: Tiny, tmp_path: Path, model: str, most: int
) -> None:
    """Virtual tokens take three of the 34 positions: PEFT must fail on longer texts, not go on."""
    stack, inputs = tiny.stack(model, "prefix"), tiny.inputs(model)
    modules = tiny.modules(stack, 1)
    export_module(stack, modules, tmp_path / "adapter", "base")

    def run(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        batch = inputs.batch([inputs.item("r", (" ".join(["w1"] * (tokens - 2)),))])
        ours = tiny.logits(stack, modules, batch)
        return ours, under_peft(tiny, tiny.folders[model], "text", tmp_path / "adapter", batch)

    assert torch.allclose(*run(most), atol=1e-5)
    with pytest.raises((RuntimeError, IndexError)):
        run(most + 1)


def test_every_linear_of_a_layer_can_be_exported(tiny: Tiny, tmp_path: Path) -> None:
    stack = tiny.stack("bert", "ia3", layers=1, targets=["query", "dense"])
    assert_runs_the_same(tiny, "bert", stack, tiny.modules(stack, 2), tmp_path / "adapter")


def test_names_stay_exact_with_many_layers(tiny: Tiny, tmp_path: Path) -> None:
    """With many targets PEFT shortens their names: `layers.1` must still not reach `layers.10`."""
    deep = tiny.save(tmp_path / "deep", "vit", layers=12)
    for number, peft in enumerate((Peft(rank=2, layers=["vit.layers.1"]), Peft(rank=2))):
        stack = Stack(load_backbone(str(deep), "image", 5), peft)
        modules, batch = tiny.modules(stack, 2), tiny.batch("vit")
        ours = tiny.logits(stack, modules, batch)
        export_module(stack, modules, tmp_path / str(number), "deep")
        assert torch.allclose(ours, under_peft(tiny, deep, "image", tmp_path / str(number), batch), atol=1e-5)


def test_a_pooler_that_the_checkpoint_lacks_is_exported_with_the_head(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "bert"
    tiny.save(folder, "bert")
    kept = load_file(folder / "model.safetensors")
    # The bias is missing, the weight is there: PEFT keeps whole modules, so both must go along.
    save_file(
        {name: array for name, array in kept.items() if name != "bert.pooler.dense.bias"},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    stack = Stack(load_backbone(str(folder), "text", 5), Peft(rank=2))
    assert "bert.pooler.dense.bias" in stack.head
    (module,) = tiny.modules(stack, 1)
    batch = tiny.batch("bert")
    ours = tiny.logits(stack, [module], batch)
    export_module(stack, [module], tmp_path / "adapter", "base")
    assert torch.allclose(ours, under_peft(tiny, folder, "text", tmp_path / "adapter", batch), atol=1e-5)
    again = import_module(stack, tmp_path / "adapter")
    assert {name: array.tobytes() for name, array in again.items()} == {
        name: array.tobytes() for name, array in module.items()
    }


def test_the_same_modules_give_the_same_files(tiny: Tiny, tmp_path: Path, kind: str) -> None:
    stack = tiny.stack("bert", kind)
    modules = tiny.modules(stack, 2)
    for name in ("one", "two"):
        export_module(stack, modules, tmp_path / name, "base")
    for name in (CONFIG, WEIGHTS):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    config = json.loads((tmp_path / "one" / CONFIG).read_text())
    assert config["base_model_name_or_path"] == "base"
    assert config["inference_mode"] is True
    assert config["task_type"] == "SEQ_CLS"
    if kind != "prefix":
        assert config["target_modules"] == sorted(stack.places.linears)


@pytest.mark.parametrize("model", ["vit", "deit", "distilbert"])
def test_prefixes_that_peft_cannot_run_are_not_exported(tiny: Tiny, tmp_path: Path, model: str) -> None:
    stack = tiny.stack(model, "prefix")
    with pytest.raises(InputError, match=f"no prefix tuning on {model}"):
        export_module(stack, tiny.modules(stack, 1), tmp_path / "adapter", "base")
    assert list(tmp_path.iterdir()) == []


def test_prefixes_in_some_layers_or_too_many_are_not_exported(tiny: Tiny, tmp_path: Path) -> None:
    some = tiny.stack("bert", "prefix", layers=2)
    with pytest.raises(InputError, match="in all layers"):
        export_module(some, tiny.modules(some, 1), tmp_path / "adapter", "base")
    stack = tiny.stack("bert", "prefix")
    with pytest.raises(InputError, match="33 virtual tokens leave no room in the model's 34 positions"):
        export_module(stack, tiny.modules(stack, 11), tmp_path / "adapter", "base")


def test_nothing_is_overwritten_and_nothing_half_written_stays(tiny: Tiny, tmp_path: Path) -> None:
    stack = tiny.stack("vit")
    modules = tiny.modules(stack, 1)
    target = tmp_path / "some" / "adapter"
    target.mkdir(parents=True)
    export_module(stack, modules, target, "base")  # an empty folder is fine
    before = (target / WEIGHTS).read_bytes()
    with pytest.raises(InputError, match="not an empty folder"):
        export_module(stack, tiny.modules(stack, 2), target, "base")
    with pytest.raises(InputError, match="not an empty folder"):
        export_module(stack, modules, target / CONFIG, "base")
    with pytest.raises(InputError, match=r"cannot be written .Not a directory"):
        export_module(stack, modules, target / CONFIG / "inside", "base")
    with pytest.raises(InputError, match="no modules"):
        export_module(stack, [], tmp_path / "none", "base")
    assert (target / WEIGHTS).read_bytes() == before
    assert [path.name for path in (tmp_path / "some").iterdir()] == ["adapter"]
