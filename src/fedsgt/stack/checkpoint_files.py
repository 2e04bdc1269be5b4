"""The files of a pretrained model: where they are, and whether they fit the settings, told without torch."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fedsgt
from fedsgt.config.sections import Model, Peft
from fedsgt.errors import InputError
from fedsgt.files.places import looks_like_hub_name, missing_place
from fedsgt.words import counted

BUNDLED = {"fedsgt/tiny-vit": Path(fedsgt.__file__).parent / "assets" / "tiny-vit"}
SETTINGS = "config.json"
# Kinds of models whose inputs are known; of others nothing is said before they are loaded.
KINDS = {
    "image": {"vit", "deit", "beit", "swin", "swinv2", "dinov2", "vit_mae", "vit_msn", "convnext", "resnet"},
    "text": {"bert", "roberta", "distilbert", "xlm-roberta", "camembert", "albert", "electra", "mpnet"},
}
INPUTS = {"image": "images", "text": "texts"}
_CACHED_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def locate(name: str) -> str:
    """Return the folder or hub id that a name stands for; only owner/name may be asked of the hub."""
    if name in BUNDLED:
        return str(BUNDLED[name])
    path = Path(os.path.expanduser(name))
    if path.is_dir():
        return str(path)
    if ":" not in name and looks_like_hub_name(name):
        return name
    # A model that is in the cache needs no network: one of the hub's first years, which has no owner, or one
    # whose owner's name a folder has here.
    folder = _cached(name) if _CACHED_NAME.fullmatch(name) else None
    if folder is None:
        allowed = f"a folder with a {SETTINGS}, or owner/name on the hub"
        if os.path.exists(path):
            raise InputError(f"model.backbone: {name!r} is no folder (allowed: {allowed})")
        raise InputError(f"model.backbone: {missing_place(name, BUNDLED, allowed)}")
    return str(folder)


def backbone_problems(model: Model, peft: Peft) -> list[str]:
    """Return all that is wrong with the backbone, as far as its own settings tell; no weights are read."""
    try:
        place = locate(model.backbone)
    except InputError as error:
        return [str(error)]
    folder = Path(place) if Path(place).is_dir() else _cached(place)
    if folder is None:
        return list(_cannot_be_fetched(place))
    try:
        settings = read_settings(folder, model.backbone)
    except InputError as error:
        return [str(error)]
    return [
        *_unfit_task(settings, model.task, model.backbone),
        *_no_weights(folder, model.backbone),
        *_unfit_sizes(settings, model, peft),
    ]


def check_task(name: str, task: str) -> None:
    """Raise if the model is known to be one for other inputs than the task's; nothing is fetched."""
    place = locate(name)
    folder = Path(place) if Path(place).is_dir() else _cached(place)
    if folder is not None:
        for problem in _unfit_task(read_settings(folder, name), task, name):
            raise InputError(problem)


def feature_width(name: str) -> int | None:
    """Return the width of a model's features; None if the model is not on this machine."""
    try:
        place = locate(name)
        folder = Path(place) if Path(place).is_dir() else _cached(place)
        settings = {} if folder is None else read_settings(folder, name)
    except InputError:
        return None
    width = settings.get("hidden_size", settings.get("dim"))
    return width if isinstance(width, int) else None


def read_settings(folder: Path, name: str) -> Mapping[str, Any]:
    """Return the model's own settings, its config.json; `name` is for messages."""
    try:
        found = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"model.backbone: {name!r} has no {SETTINGS}; give the folder of a model") from None
    except OSError as error:
        raise InputError(f"model.backbone: {name!r}: {SETTINGS} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(
            f"model.backbone: {name!r}: its {SETTINGS} is not the JSON of a model; fetch it again"
        )
    return found


def _cached(name: str) -> Path | None:
    """Return the folder of a hub model in the local cache; None if it is not there."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:  # told by whoever needs it
        return None
    found = try_to_load_from_cache(name, SETTINGS)
    return Path(found).parent if isinstance(found, str) else None


def _cannot_be_fetched(name: str) -> Iterator[str]:
    forbidden = next(
        (key for key in _OFFLINE if os.environ.get(key, "").upper() in ("1", "ON", "YES", "TRUE")), None
    )
    if forbidden:
        yield (
            f"model.backbone: {name!r} is no folder here and not in the hub's cache, and {forbidden} forbids "
            "to fetch it"
        )


def _unfit_task(settings: Mapping[str, Any], task: str, name: str) -> Iterator[str]:
    kind = str(settings.get("model_type"))
    known = next((other for other, kinds in KINDS.items() if kind in kinds), None)
    if known is not None and known != task:
        yield (
            f"model.backbone: {name!r} is a model for {INPUTS[known]} ({kind}), and model.task is {task}; "
            f'set model.task = "{known}", or give a backbone for {INPUTS[task]}'
        )


def _no_weights(folder: Path, name: str) -> Iterator[str]:
    patterns = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin*")
    # A folder in the hub's cache may lack weights that are fetched when they are needed.
    if "snapshots" not in folder.parts and not any(
        True for pattern in patterns for _ in folder.glob(pattern)
    ):
        yield f"model.backbone: {name!r} has no weights; put its model.safetensors into the folder"


def _unfit_sizes(settings: Mapping[str, Any], model: Model, peft: Peft) -> Iterator[str]:
    patch = _first(settings.get("patch_size"))
    if model.task == "image" and model.image_size is not None and patch and model.image_size % patch:
        yield (
            f"model.image_size: {model.image_size} is no multiple of the model's patch of "
            f"{counted(patch, 'pixel')}"
        )
    layers = _first(settings.get("num_hidden_layers", settings.get("n_layers")))
    if isinstance(peft.layers, int) and layers and peft.layers > layers:
        yield f"peft.layers: {peft.layers} is more than the model's {counted(layers, 'layer')}"


def _first(value: object) -> int | None:
    """Return a whole number, or the first of a pair, such as of height and width; None for all else."""
    first = value[0] if isinstance(value, list) and value else value
    return first if type(first) is int and first > 0 else None
