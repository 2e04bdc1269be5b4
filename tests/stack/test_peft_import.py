"""Adapters come back bit for bit, and stock adapters run in the stack; others are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from peft import IA3Config, LoraConfig, PrefixTuningConfig, get_peft_model
from safetensors.numpy import load_file, save_file

from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.peft_export import CONFIG, WEIGHTS, export_module
from fedsgt.stack.peft_import import import_module
from fedsgt.stack.stack import Stack

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny

LINEAR_KINDS = pytest.mark.parametrize("kind", ["lora", "ia3"])


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


def stock_adapter(tiny: Tiny, model: str, config: Any, folder: Path) -> torch.Tensor:
    """Train an adapter for two steps and save it, by PEFT alone; return its logits."""
    torch.manual_seed(3)
    wrapped = get_peft_model(tiny.plain(tiny.folders[model], tiny.task(model)), config).eval()
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
    """Scales other than the stack's 3 / 2 work too."""
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
