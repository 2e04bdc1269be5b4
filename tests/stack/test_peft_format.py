"""Exported adapters run under stock PEFT with the stack's own logits, and stock adapters run in the stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from peft import IA3Config, LoraConfig, PeftModel, PrefixTuningConfig, get_peft_model
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification

from fedsgt.config.model import Peft
from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.peft_format import CONFIG, WEIGHTS, export_module, import_module
from fedsgt.stack.stack import Stack

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny

LINEAR_KINDS = pytest.mark.parametrize("kind", ["lora", "ia3"])


def plain_model(folder: Path, task: str) -> Any:
    """As somebody loads it who has never heard of us, but for a head of another size in the file."""
    auto: Any = AutoModelForImageClassification if task == "image" else AutoModelForSequenceClassification
    return auto.from_pretrained(folder, num_labels=5, ignore_mismatched_sizes=True).eval()


def under_peft(folder: Path, task: str, adapter: Path, batch: dict[str, Any]) -> torch.Tensor:
    torch.manual_seed(99)  # whatever the head starts from there must not matter
    wrapped = PeftModel.from_pretrained(plain_model(folder, task), adapter)
    with torch.no_grad():
        found: torch.Tensor = wrapped(**batch).logits
    return found


def assert_runs_the_same(tiny: Tiny, model: str, stack: Stack, modules: list[Tensors], adapter: Path) -> None:
    batch = tiny.batch(model)
    ours = tiny.logits(stack, modules, batch)
    export_module(stack, modules, adapter, str(tiny.folders[model]))
    theirs = under_peft(tiny.folders[model], tiny.task(model), adapter, batch)
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
    """Three of the 34 positions are theirs: PEFT must fail on what is longer, and not go on otherwise."""
    stack, inputs = tiny.stack(model, "prefix"), tiny.inputs(model)
    modules = tiny.modules(stack, 1)
    export_module(stack, modules, tmp_path / "adapter", "base")

    def run(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        batch = inputs.batch([inputs.item("r", (" ".join(["w1"] * (tokens - 2)),))])
        ours = tiny.logits(stack, modules, batch)
        return ours, under_peft(tiny.folders[model], "text", tmp_path / "adapter", batch)

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
        assert torch.allclose(ours, under_peft(deep, "image", tmp_path / str(number), batch), atol=1e-5)


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
    assert torch.allclose(ours, under_peft(folder, "text", tmp_path / "adapter", batch), atol=1e-5)
    assert_same(import_module(stack, tmp_path / "adapter"), module)


def assert_same(one: Tensors, other: Tensors) -> None:
    assert sorted(one) == sorted(other)
    for name, array in one.items():
        assert array.dtype == other[name].dtype == np.float32
        assert array.shape == other[name].shape
        assert array.tobytes() == other[name].tobytes(), name


@LINEAR_KINDS
def test_a_module_comes_back_bit_for_bit(tiny: Tiny, tmp_path: Path, model: str, kind: str) -> None:
    stack = tiny.stack(model, kind, layers=2)
    (module,) = tiny.modules(stack, 1)
    export_module(stack, [module], tmp_path / "adapter", "base")
    assert_same(import_module(stack, tmp_path / "adapter"), module)


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


def stock_adapter(tiny: Tiny, model: str, config: Any, folder: Path) -> torch.Tensor:
    """Trained for two steps and saved by PEFT alone; its logits."""
    torch.manual_seed(3)
    wrapped = get_peft_model(plain_model(tiny.folders[model], tiny.task(model)), config).eval()
    batch = tiny.batch(model)
    optimizer = torch.optim.SGD([p for p in wrapped.parameters() if p.requires_grad], lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(wrapped(**batch).logits, torch.arange(6) % 5)
        torch.autograd.backward(loss)
        optimizer.step()
    wrapped.save_pretrained(folder)
    with torch.no_grad():
        found: torch.Tensor = wrapped(**batch).logits
    return found


QUERIES = ["q_proj", "query", "q_lin"]
KEYS = ["k_proj", "key", "k_lin"]


@pytest.mark.parametrize("alpha", [3, 5])
def test_a_stock_lora_gives_its_logits_here(tiny: Tiny, tmp_path: Path, model: str, alpha: int) -> None:
    """Also with another scale than the stack's, which is 3 / 2."""
    config = LoraConfig(r=2, lora_alpha=alpha, target_modules=QUERIES, modules_to_save=["classifier"])
    theirs = stock_adapter(tiny, model, config, tmp_path)
    stack = tiny.stack(model, targets=[tiny.own_name(model, QUERIES)])
    module = import_module(stack, tmp_path)
    assert torch.allclose(tiny.logits(stack, [module], tiny.batch(model)), theirs, atol=1e-5)


def test_a_stock_ia3_gives_its_logits_here(tiny: Tiny, tmp_path: Path, model: str) -> None:
    outputs = ["fc2", "intermediate.dense", "lin2"]
    config = IA3Config(
        target_modules=[*KEYS, *outputs],
        feedforward_modules=["fc2", "lin2"],
        modules_to_save=["classifier"],
    )
    theirs = stock_adapter(tiny, model, config, tmp_path)
    stack = tiny.stack(model, "ia3", targets=[tiny.own_name(model, names) for names in (KEYS, outputs)])
    module = import_module(stack, tmp_path)
    assert torch.allclose(tiny.logits(stack, [module], tiny.batch(model)), theirs, atol=1e-5)


@pytest.fixture
def exported(tiny: Tiny, tmp_path: Path) -> tuple[Stack, Path]:
    stack = tiny.stack("distilbert")
    export_module(stack, tiny.modules(stack, 1), tmp_path / "adapter", "base")
    return stack, tmp_path / "adapter"


def refused(stack: Stack, folder: Path, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        import_module(stack, folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("use_rslora", True),
        ("use_dora", True),
        ("bias", "lora_only"),
        ("lora_bias", True),
        ("rank_pattern", {"q_lin": 4}),
        ("alpha_pattern", {"q_lin": 4}),
        ("init_lora_weights", "pissa"),
        ("trainable_token_indices", [1]),
        ("from_some_later_version", {"a": 1}),
    ],
)
def test_options_that_change_the_result_are_refused_by_name(
    exported: tuple[Stack, Path], option: str, value: Any
) -> None:
    stack, folder = exported
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {option: value}))
    refused(stack, folder, f"{option} = ")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'; the stack's kind is lora"),
        ({"r": 4}, "r is 4; the stack's rank is 2"),
        ({"lora_alpha": None}, "lora_alpha is None"),
    ],
)
def test_another_kind_rank_or_scale(exported: tuple[Stack, Path], change: dict[str, Any], says: str) -> None:
    stack, folder = exported
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | change))
    refused(stack, folder, says)


def change_tensors(folder: Path, **changes: Any) -> None:
    tensors = load_file(folder / WEIGHTS) | changes
    kept = {name: array for name, array in tensors.items() if array is not None}
    save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})


def test_tensors_that_do_not_fit(exported: tuple[Stack, Path]) -> None:
    stack, folder = exported
    name = f"{stack.places.linears[0]}.lora_A.weight"
    original = load_file(folder / WEIGHTS)
    change_tensors(folder, **{f"base_model.model.{name}": None})
    refused(stack, folder, f"lacks {name}")
    change_tensors(folder, **{f"base_model.model.{name}": np.zeros((2, 7), np.float32)})
    refused(stack, folder, rf"{name} has shape \(2, 7\); the stack needs \(2, 32\)")
    change_tensors(folder, **original, extra=np.zeros(1, np.float32))
    refused(stack, folder, "also changes extra")
    trunk = "distilbert.transformer.layer.0.ffn.lin1.bias"
    change_tensors(folder, **original, extra=None, **{f"base_model.model.{trunk}": np.ones(48, np.float32)})
    refused(stack, folder, f"also changes {trunk}")


def test_an_adapter_of_more_layers_is_refused(tiny: Tiny, exported: tuple[Stack, Path]) -> None:
    _, folder = exported
    refused(tiny.stack("distilbert", layers=1), folder, "also changes distilbert.transformer.layer.0")


def test_an_adapter_without_a_head_needs_one(tiny: Tiny, exported: tuple[Stack, Path]) -> None:
    stack, folder = exported
    whole = import_module(stack, folder)
    change_tensors(folder, **{f"base_model.model.{name}": None for name in stack.head})
    refused(stack, folder, "no classifier.bias; save it")
    assert_same(import_module(stack, folder, whole), whole)


def test_files_that_cannot_be_read(exported: tuple[Stack, Path], tmp_path: Path) -> None:
    stack, folder = exported
    refused(stack, tmp_path / "nowhere", "cannot be read .No such file")
    (folder / WEIGHTS).write_bytes(b"what")
    refused(stack, folder, f"{WEIGHTS}: cannot be read")
    (folder / WEIGHTS).unlink()
    refused(stack, folder, f"{WEIGHTS}: cannot be read")
    (folder / CONFIG).write_text("what")
    refused(stack, folder, "not JSON")
    (folder / CONFIG).write_text("[]")
    refused(stack, folder, "no JSON object")


def test_prefixes_are_not_imported(tiny: Tiny, tmp_path: Path) -> None:
    config = PrefixTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=3)
    stock_adapter(tiny, "bert", config, tmp_path)
    refused(tiny.stack("bert", "prefix"), tmp_path, "kind prefix cannot be imported")


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
