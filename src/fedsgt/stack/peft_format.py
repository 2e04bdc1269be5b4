"""Modules as stock PEFT adapters, and back: what leaves here needs nothing of ours to run."""

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
from safetensors.torch import load_file

from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.ia3 import Ia3
from fedsgt.stack.prefix import Prefix
from fedsgt.stack.stack import HEAD, Stack

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# What PEFT puts before the model's own names: one wrapper for prompts, two for everything else.
INSIDE, INSIDE_PROMPT = "base_model.model.", "base_model."
# Options of an adapter that do not change what it computes, or that its tensors show anyway.
READ_ELSEWHERE = {
    *("peft_type", "task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision"),
    *("inference_mode", "r", "lora_alpha", "lora_dropout", "target_modules", "exclude_modules"),
    *("feedforward_modules", "modules_to_save", "layers_to_transform", "layers_pattern", "init_ia3_weights"),
}
# Ways to draw a LoRA's first values that leave the backbone's weights as they are; others take something off.
HARMLESS_STARTS = (True, False, "gaussian", "eva", "orthogonal")


def export_module(stack: Stack, modules: Sequence[Tensors], folder: Path, base: str) -> None:
    """Write a prefix of modules, root first, as one adapter with the last one's head.

    `base` is the name under which others load the backbone: `PeftModel.from_pretrained` on that model gives
    the stack's logits. Prefix tuning can be exported for BERT and RoBERTa, with modules in all layers.
    """
    if not modules:
        raise InputError("export: no modules; give one at least, root first")
    tensors, config = WRITERS[stack.settings.kind](stack, modules)
    config.base_model_name_or_path, config.inference_mode = base, True
    config.task_type = None if stack.backbone.model.main_input_name == "pixel_values" else "SEQ_CLS"
    _write(folder, tensors, _config_text(config))


def import_module(
    stack: Stack, folder: Path, head: Mapping[str, NDArray[np.float32]] | None = None
) -> Tensors:
    """A LoRA or IA3 adapter made by PEFT as a module of this stack.

    `head` stands in for what the adapter does not save of the head; its names are those of a module.
    """
    config = _check_config(stack, _read_config(folder), folder)
    stored = _read_tensors(folder)
    module = READERS[stack.settings.kind](stack, stored, config, folder)
    module |= _read_head(stack, stored, head, folder)
    for name, tensor in stored.items():  # a module saved as a whole may repeat what the backbone has
        own = stack.backbone.tensors.get(name)
        if own is None or not np.array_equal(own.detach().cpu().numpy(), tensor):
            raise InputError(f"{folder}: the adapter also changes {name}, which no module of this stack does")
    return module


def _lora(stack: Stack, modules: Sequence[Tensors]) -> tuple[Tensors, PeftConfig]:
    """A of all modules below each other, B side by side: their product is the sum of the products."""
    rank, alpha = stack.settings.rank * len(modules), stack.settings.alpha * len(modules)
    tensors, saved = _head(stack, modules[-1], INSIDE)
    for name in stack.places.linears:
        for factor, axis in (("lora_A", 0), ("lora_B", 1)):
            parts = [module[f"{name}.{factor}"] for module in modules]
            tensors[f"{INSIDE}{name}.{factor}.weight"] = np.concatenate(parts, axis)
    targets = list(stack.places.linears)
    scale: Any = int(alpha) if float(alpha).is_integer() else alpha
    return tensors, LoraConfig(r=rank, lora_alpha=scale, target_modules=targets, modules_to_save=saved)


def _ia3(stack: Stack, modules: Sequence[Tensors]) -> tuple[Tensors, PeftConfig]:
    """The product of all modules' vectors, as a column where it scales outputs and as a row where inputs."""
    tensors, saved = _head(stack, modules[-1], INSIDE)
    inner = _scaling_inputs(stack)
    for name in stack.places.linears:
        vectors = np.stack([module[f"{name}.ia3"] for module in modules]).astype(np.float64)
        product = vectors.prod(axis=0).astype(np.float32)
        tensors[f"{INSIDE}{name}.ia3_l"] = product[None, :] if name in inner else product[:, None]
    targets = list(stack.places.linears)
    return tensors, IA3Config(target_modules=targets, feedforward_modules=inner, modules_to_save=saved)


def _prefix(stack: Stack, modules: Sequence[Tensors]) -> tuple[Tensors, PeftConfig]:
    """All modules' virtual tokens in a row, token by token as PEFT keeps them."""
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
    """PEFT counts virtual tokens as positions, which moves the text's; so the embeddings move along.

    Texts may then be that many tokens shorter at most; PEFT fails on longer ones.
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
        raise InputError(f"export: {tokens} virtual tokens leave no room in the model's {len(own)} positions")
    return name, np.concatenate([own[:tokens], own[:-tokens]])


WRITERS: dict[str, Callable[[Stack, Sequence[Tensors]], tuple[Tensors, PeftConfig]]] = {
    "lora": _lora,
    "ia3": _ia3,
    "prefix": _prefix,
}


def _head(stack: Stack, module: Tensors, inside: str) -> tuple[Tensors, list[str]]:
    """The head as PEFT keeps it: whole submodules by exact name, with all that they hold."""
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


def _scaling_inputs(stack: Stack) -> list[str]:
    assert isinstance(stack.kind, Ia3)
    return [name for name, site in stack.kind.sites.items() if site.scales_input]


def _config_text(config: PeftConfig) -> str:
    """Sets in order, so that the same modules always give the same text."""
    known = {
        key: sorted(value) if isinstance(value, set) else value for key, value in config.to_dict().items()
    }
    return json.dumps(known, indent=2, sort_keys=True) + "\n"


def _write(folder: Path, tensors: Tensors, config: str) -> None:
    """All of it or nothing: written beside and moved; nothing that is there is overwritten."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"export: {folder} is there already and not an empty folder; name another (-o)")
    beside = folder.parent / f".{folder.name}.{uuid.uuid4().hex}"
    try:
        beside.mkdir(parents=True)
        whole = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors)}
        save_file(whole, beside / WEIGHTS, metadata={"format": "pt"})
        (beside / CONFIG).write_text(config, encoding="utf-8")
        beside.replace(folder)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"export: {folder} cannot be written ({reason})") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not JSON"
        raise InputError(
            f"{folder / CONFIG}: cannot be read ({reason}); give a folder that PEFT saved"
        ) from None
    if not isinstance(config, dict):
        raise InputError(f"{folder / CONFIG}: no JSON object; give a folder that PEFT saved")
    return config


def _check_config(stack: Stack, config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """All options, defaults filled in; one that makes PEFT compute what no module here does is refused."""
    kind, defaults = stack.settings.kind, {"lora": LoraConfig, "ia3": IA3Config}
    if kind not in defaults:
        raise InputError(f"import: modules of kind {kind} cannot be imported; lora and ia3 can")
    if str(config.get("peft_type")).lower() != kind:
        raise InputError(f"{folder}: peft_type is {config.get('peft_type')!r}; the stack's kind is {kind}")
    usual = defaults[kind]().to_dict()
    for name, value in config.items():
        if name == "init_lora_weights" and value in HARMLESS_STARTS:
            continue
        if name not in READ_ELSEWHERE and value and value != usual.get(name):
            raise InputError(f"{folder}: {name} = {value!r} is an option of PEFT that no module here has")
    return {**usual, **config}


def _read_tensors(folder: Path) -> Tensors:
    """By the model's own names, without PEFT's wrapper before them."""
    try:
        loaded = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{folder / WEIGHTS}: cannot be read ({str(error).splitlines()[0]})") from None
    return {name.removeprefix(INSIDE): tensor.float().numpy() for name, tensor in loaded.items()}


def _read_lora(stack: Stack, stored: Tensors, config: Mapping[str, Any], folder: Path) -> Tensors:
    settings, alpha = stack.settings, config["lora_alpha"]
    if config["r"] != settings.rank:
        raise InputError(f"{folder}: r is {config['r']!r}; the stack's rank is {settings.rank}")
    if not isinstance(alpha, int | float):
        raise InputError(f"{folder}: lora_alpha is {alpha!r}; a number is expected")
    module: Tensors = {}
    for name, shape in _shapes(stack).items():
        module[name] = _take(stored, f"{name}.weight", shape, folder)
        if name.endswith(".lora_B") and alpha != settings.alpha:
            # Only the product with the scale counts: another scale is another B.
            module[name] = (module[name] * np.float64(alpha / settings.alpha)).astype(np.float32)
    return module


def _read_ia3(stack: Stack, stored: Tensors, config: Mapping[str, Any], folder: Path) -> Tensors:
    inner = _scaling_inputs(stack)
    module: Tensors = {}
    for name, (width,) in _shapes(stack).items():
        shape = (1, width) if name.removesuffix(".ia3") in inner else (width, 1)
        module[name] = _take(stored, f"{name}_l", shape, folder).reshape(width)
    return module


READERS = {"lora": _read_lora, "ia3": _read_ia3}


def _shapes(stack: Stack) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in stack.kind.initial(np.random.default_rng(0)).items()}


def _take(stored: Tensors, name: str, shape: tuple[int, ...], folder: Path) -> NDArray[np.float32]:
    if name not in stored:
        raise InputError(f"{folder}: the adapter lacks {name}; the stack has a module there")
    found = stored.pop(name)
    if found.shape != shape:
        raise InputError(f"{folder}: {name} has shape {found.shape}; the stack needs {shape}")
    return found


def _read_head(
    stack: Stack, stored: Tensors, instead: Mapping[str, NDArray[np.float32]] | None, folder: Path
) -> Tensors:
    head: Tensors = {}
    for name, tensor in stack.head.items():
        if name in stored:
            head[HEAD + name] = _take(stored, name, tuple(tensor.shape), folder)
        elif instead is not None and HEAD + name in instead:
            head[HEAD + name] = np.array(instead[HEAD + name], np.float32)
        else:
            raise InputError(f"{folder}: the adapter has no {name}; save it (modules_to_save) or give a head")
    return head
