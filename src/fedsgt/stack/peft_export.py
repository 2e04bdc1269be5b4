"""Export of modules as a stock PEFT adapter, which needs nothing of this project to run."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peft import IA3Config, LoraConfig, PeftConfig, PrefixTuningConfig
from safetensors import SafetensorError
from safetensors.numpy import save_file

from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.ia3 import Ia3
from fedsgt.stack.prefix import Prefix
from fedsgt.stack.ridge import SHARPNESS, SolvedHead
from fedsgt.stack.stack import HEAD, Stack
from fedsgt.words import counted

# Models whose head is one linear layer, `classifier`, on the trunk's first token.
LINEAR_HEADS = ("ViTForImageClassification", "DeiTForImageClassification")
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# Prefixes that PEFT puts before the model's own names: one wrapper for prompts, two for all else.
INSIDE, INSIDE_PROMPT = "base_model.model.", "base_model."


def export_module(
    stack: Stack,
    modules: Sequence[Tensors],
    folder: Path,
    base: str,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write a chain of modules, root first, as one adapter with the last one's head.

    `notes` has further files, by name, which appear with the adapter.

    `base` is the name under which others load the backbone: `PeftModel.from_pretrained` on that model gives
    the stack's logits. Prefix tuning can be exported for BERT and RoBERTa, with modules in all layers.
    """
    if not modules:
        raise InputError("export: no modules are given; give at least one, root first")
    tensors, config = WRITERS[stack.settings.kind](stack, modules)
    config.base_model_name_or_path, config.inference_mode = base, True
    config.task_type = None if stack.backbone.model.main_input_name == "pixel_values" else "SEQ_CLS"
    _write(folder, tensors, {CONFIG: _config_text(config), **(notes or {})})


def _lora(stack: Stack, modules: Sequence[Tensors]) -> tuple[Tensors, PeftConfig]:
    """Put the modules' A below each other and their B side by side: the product is the sum of products."""
    rank, alpha = stack.settings.rank * len(modules), stack.settings.alpha * len(modules)
    tensors, saved = _head(stack, modules[-1], INSIDE)
    for name in stack.places.linears:
        for factor, axis in (("lora_A", 0), ("lora_B", 1)):
            parts = [module[f"{name}.{factor}"] for module in modules]
            tensors[f"{INSIDE}{name}.{factor}.weight"] = np.concatenate(parts, axis)
    targets = list(stack.places.linears)
    # Rank and alpha grow together, so that PEFT's scale alpha / r is that of each module. A whole number is
    # written as one, as PEFT does.
    scale: Any = int(alpha) if float(alpha).is_integer() else alpha
    return tensors, LoraConfig(r=rank, lora_alpha=scale, target_modules=targets, modules_to_save=saved)


def _ia3(stack: Stack, modules: Sequence[Tensors]) -> tuple[Tensors, PeftConfig]:
    """Multiply the modules' vectors; PEFT has a column where they scale outputs, and a row for inputs."""
    tensors, saved = _head(stack, modules[-1], INSIDE)
    inner = scaling_inputs(stack)
    for name in stack.places.linears:
        # The product is float64 and rounded once, as when the stack folds the vectors.
        vectors = np.stack([module[f"{name}.ia3"] for module in modules]).astype(np.float64)
        product = vectors.prod(axis=0).astype(np.float32)
        tensors[f"{INSIDE}{name}.ia3_l"] = product[None, :] if name in inner else product[:, None]
    targets = list(stack.places.linears)
    return tensors, IA3Config(target_modules=targets, feedforward_modules=inner, modules_to_save=saved)


def _prefix(stack: Stack, modules: Sequence[Tensors]) -> tuple[Tensors, PeftConfig]:
    """Join the modules' virtual tokens, token by token as PEFT keeps them."""
    assert isinstance(stack.kind, Prefix)
    slots = stack.kind.slots
    if len(slots) < len(stack.places.layers):
        raise InputError("export: PEFT's prefix tuning is in all layers; these modules are not (peft.layers)")
    joined = [
        [
            np.concatenate([module[f"{name}.prefix_{part}"] for module in modules], 1)
            for part in ("key", "value")
        ]
        for name in slots
    ]
    layers = np.array(joined)  # layer, key or value, head, token, width
    tokens = layers.shape[3]
    positions, moved = _moved_positions(stack, tokens)
    tensors, saved = _head(stack, modules[-1], INSIDE_PROMPT)
    tensors[f"{INSIDE_PROMPT}{positions}.weight"] = moved
    tensors["prompt_embeddings"] = layers.transpose(3, 0, 1, 2, 4).reshape(tokens, -1)
    return tensors, PrefixTuningConfig(
        num_virtual_tokens=tokens,
        token_dim=stack.kind.width,
        encoder_hidden_size=stack.kind.width,
        num_layers=len(slots),
        num_attention_heads=stack.kind.heads,
        num_transformer_submodules=1,
        modules_to_save=[*saved, positions],
    )


def _moved_positions(stack: Stack, tokens: int) -> tuple[str, NDArray[np.float32]]:
    """Return name and value of position embeddings that are moved by the number of virtual tokens.

    PEFT counts virtual tokens as positions, which moves those of the text. Texts can then have that many
    fewer tokens; PEFT fails on longer ones.
    """
    model = stack.backbone.model
    config = model.config
    if config.model_type not in ("bert", "roberta"):
        raise InputError(
            f"export: PEFT runs no prefix tuning on {config.model_type}, only on bert and roberta"
        )
    name = f"{model.base_model_prefix}.embeddings.position_embeddings"
    own = stack.backbone.tensors[f"{name}.weight"].detach().cpu().numpy()
    if tokens + 2 > len(own):
        raise InputError(
            f"export: {counted(tokens, 'virtual token')} leave no room in the model's "
            f"{counted(len(own), 'position')}"
        )
    # The first rows stand for virtual tokens, which have no position embedding and never read them.
    return name, np.concatenate([own[:tokens], own[:-tokens]])


WRITERS: dict[str, Callable[[Stack, Sequence[Tensors]], tuple[Tensors, PeftConfig]]] = {
    "lora": _lora,
    "ia3": _ia3,
    "prefix": _prefix,
}


def linear_head(stack: Stack, solved: SolvedHead) -> Tensors | None:
    """Return a solved head as the model's own; None if that is no linear layer on the first token.

    BERT and its kin read the first token through a dense layer and a tanh, which no linear head passes.
    """
    if type(stack.backbone.model).__name__ not in LINEAR_HEADS:
        return None
    # Softmax sharpens scores; the model's own has none, so that the weights are sharper.
    sharp = SHARPNESS * solved.weights
    return {
        f"{HEAD}classifier.weight": np.ascontiguousarray(sharp[:-1].T, np.float32),
        f"{HEAD}classifier.bias": sharp[-1].astype(np.float32),
    }


def _head(stack: Stack, module: Tensors, inside: str) -> tuple[Tensors, list[str]]:
    """Return the head as PEFT keeps it: whole submodules, and their exact names."""
    model = stack.backbone.model
    trunk = f"{model.base_model_prefix}."
    owners = {
        name.rpartition(".")[0] if name.startswith(trunk) else name.partition(".")[0] for name in stack.head
    }
    tensors: Tensors = {}
    for owner in sorted(owners):
        for part, tensor in model.get_submodule(owner).state_dict().items():
            name = f"{owner}.{part}"
            tensors[inside + name] = module[HEAD + name] if name in stack.head else tensor.cpu().numpy()
    return tensors, sorted(owners)


def scaling_inputs(stack: Stack) -> list[str]:
    """Return the linear layers whose input an IA3 module scales."""
    assert isinstance(stack.kind, Ia3)
    return [name for name, adapted in stack.kind.linears.items() if adapted.scales_input]


def _config_text(config: PeftConfig) -> str:
    """Return the configuration as JSON."""
    # Sets are sorted, so that the same modules always give the same text.
    known = {
        key: sorted(value) if isinstance(value, set) else value for key, value in config.to_dict().items()
    }
    return json.dumps(known, indent=2, sort_keys=True) + "\n"


def _write(folder: Path, tensors: Tensors, texts: Mapping[str, str]) -> None:
    """Write the adapter whole or not at all; raise if the folder is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"export: {folder} is there already and not an empty folder; name another (-o)")
    # The adapter is written beside its place and then renamed, so that no reader meets half of it.
    beside = folder.parent / f".{folder.name}.{uuid.uuid4().hex}"
    try:
        beside.mkdir(parents=True)
        whole = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors)}
        save_file(whole, beside / WEIGHTS, metadata={"format": "pt"})
        for name, text in texts.items():
            (beside / name).write_text(text, encoding="utf-8")
        beside.replace(folder)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"export: {folder} cannot be written ({reason})") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
