"""Import of LoRA and IA3 adapters that stock PEFT made, as modules of a stack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peft import IA3Config, LoraConfig
from safetensors import SafetensorError
from safetensors.torch import load_file

from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.peft_export import CONFIG, INSIDE, WEIGHTS, scaling_inputs
from fedsgt.stack.stack import HEAD, Stack

# Options that do not change what an adapter computes, or that are read from its tensors.
READ_ELSEWHERE = {
    *("peft_type", "task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision"),
    *("inference_mode", "r", "lora_alpha", "lora_dropout", "target_modules", "exclude_modules"),
    *("feedforward_modules", "modules_to_save", "layers_to_transform", "layers_pattern", "init_ia3_weights"),
}
# Ways to draw first values that leave the backbone's weights alone; others subtract from these.
HARMLESS_STARTS = (True, False, "gaussian", "eva", "orthogonal")


def import_module(
    stack: Stack, folder: Path, head: Mapping[str, NDArray[np.float32]] | None = None
) -> Tensors:
    """Read a LoRA or IA3 adapter made by PEFT as a module of this stack.

    `head` has, by their names in a module, the parts of the head that the adapter does not save.
    """
    config = _check_config(stack, _read_config(folder), folder)
    stored = _read_tensors(folder)
    module = READERS[stack.settings.kind](stack, stored, config, folder)
    module |= _read_head(stack, stored, head, folder)
    # Submodules that PEFT saves whole may repeat weights of the backbone; more must not be left over.
    for name, tensor in stored.items():
        own = stack.backbone.tensors.get(name)
        if own is None or not np.array_equal(own.detach().cpu().numpy(), tensor):
            raise InputError(f"{folder}: the adapter also changes {name}, which no module of this stack does")
    return module


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
    """Return all options with their defaults; raise if one makes PEFT compute what no module here does."""
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
    """Read the adapter's tensors by the model's own names, without the prefix of PEFT's wrapper."""
    try:
        loaded = load_file(folder / WEIGHTS)  # torch reads the file, because NumPy has no bfloat16
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
            # Only the product of scale and B counts, so another scale is taken into B.
            module[name] = (module[name] * np.float64(alpha / settings.alpha)).astype(np.float32)
    return module


def _read_ia3(stack: Stack, stored: Tensors, config: Mapping[str, Any], folder: Path) -> Tensors:
    inner = scaling_inputs(stack)
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
