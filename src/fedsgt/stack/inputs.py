"""Preparation of records for a model: pixels or tokens, padded no further than their batch needs."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase
from transformers.utils.hub import cached_file

from fedsgt.config.sections import Model
from fedsgt.errors import InputError
from fedsgt.stack.backbone import Backbone
from fedsgt.stack.checkpoint_files import locate
from fedsgt.words import counted

Content: TypeAlias = tuple[bytes | str, ...]
Item: TypeAlias = dict[str, NDArray[Any]]
Batch: TypeAlias = dict[str, Tensor]
MEND = "replace it, or leave the record out"


class Inputs(Protocol):
    """Prepares one record at a time and joins them to batches; depends on content and settings alone."""

    longest: int
    """Largest number of tokens of a text; 0 for images."""

    def item(self, record: str, content: Content) -> Item:
        """Prepare one record; an error names it."""

    def batch(self, items: Sequence[Item], length: int = 0) -> Batch:
        """Join prepared records for one forward pass; texts are padded to `length` tokens or more."""

    def describe(self) -> dict[str, Any]:
        """Return all settings that shape an item; they are part of every module's key."""


class ImageInputs:
    """Images decoded to RGB and scaled (bilinear) to one size; kept as bytes, normalised in the batch."""

    longest = 0

    def __init__(self, size: int, mean: Sequence[float], std: Sequence[float], interpolate: bool) -> None:
        self.size, self.mean, self.std, self.interpolate = size, tuple(mean), tuple(std), interpolate
        shape = (1, 3, 1, 1)
        self._mean = torch.tensor(self.mean, dtype=torch.float32).view(shape)
        self._std = torch.tensor(self.std, dtype=torch.float32).view(shape)

    def item(self, record: str, content: Content) -> Item:
        data = content[0]
        if not isinstance(data, bytes):
            raise InputError(f"record {record!r}: text where an image is expected; see data.input_columns")
        try:
            with Image.open(io.BytesIO(data)) as image:
                pixels = image.convert("RGB")
        except UnidentifiedImageError:
            raise InputError(
                f"record {record!r}: the image does not decode (unknown format); {MEND}"
            ) from None
        # Pillow raises all of these for damaged files, depending on the format.
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"record {record!r}: the image does not decode ({reason}); {MEND}") from None
        if pixels.size != (self.size, self.size):
            pixels = pixels.resize((self.size, self.size), Image.Resampling.BILINEAR)
        # Bytes take a quarter of the memory that normalised floats would.
        return {"pixels": np.asarray(pixels, np.uint8).transpose(2, 0, 1).copy()}

    def batch(self, items: Sequence[Item], length: int = 0) -> Batch:
        pixels = torch.from_numpy(np.stack([item["pixels"] for item in items])).float()
        values: dict[str, Any] = {"pixel_values": (pixels / 255 - self._mean) / self._std}
        return values | ({"interpolate_pos_encoding": True} if self.interpolate else {})

    def describe(self) -> dict[str, Any]:
        return {"task": "image", "size": self.size, "mean": list(self.mean), "std": list(self.std)}


class TextInputs:
    """Token ids of a text or a pair of texts; a batch is padded to its longest record, or further."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, longest: int, cut: bool) -> None:
        self.tokenizer, self.longest, self.cut = tokenizer, longest, cut

    def item(self, record: str, content: Content) -> Item:
        if not 1 <= len(content) <= 2 or not all(isinstance(part, str) for part in content):
            raise InputError(f"record {record!r}: one or two texts are expected; see data.input_columns")
        # Not verbose: transformers would warn of long texts, which raise below with the record's name.
        limit = {"truncation": True, "max_length": self.longest} if self.cut else {"verbose": False}
        found = self.tokenizer(*content, **limit)
        if len(found["input_ids"]) > self.longest:
            raise InputError(
                f"record {record!r}: {len(found['input_ids'])} tokens are more than {self.longest}; "
                'shorten it, raise model.max_length if the model allows it, or set model.too_long = "cut"'
            )
        names = [name for name in ("input_ids", "token_type_ids") if name in found]
        return {name: np.array(found[name], np.int64) for name in names}

    def batch(self, items: Sequence[Item], length: int = 0) -> Batch:
        # Padded here, not by the tokenizer: the length of a batch then depends on its records alone.
        fill = {"input_ids": self.tokenizer.pad_token_id or 0, "token_type_ids": 0}
        padded = {name: pad([item[name] for item in items], fill[name], length) for name in items[0]}
        return padded | {"attention_mask": mask_of([len(item["input_ids"]) for item in items], length)}

    def describe(self) -> dict[str, Any]:
        rules = json.loads(self.tokenizer.backend_tokenizer.to_str())
        # The tokenizer stores these two from call to call, so they tell nothing about its rules.
        for changed_by_use in ("truncation", "padding"):
            rules.pop(changed_by_use, None)
        known = hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()
        tokens = {"tokenizer": known, "pad": self.tokenizer.pad_token_id}
        given = list(self.tokenizer.model_input_names)
        return {"task": "text", "longest": self.longest, "cut": self.cut, "given": given, **tokens}


def hidden_batch(items: Sequence[Item], text: bool, length: int = 0) -> Batch:
    """Join lower layers' outputs, each kept at its own length, to a batch."""
    batch = {"hidden": pad([item["hidden"] for item in items], 0, length)}
    if not text:
        return batch
    return batch | {"attention_mask": mask_of([len(item["hidden"]) for item in items], length)}


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move the batch's tensors to the device; flags among them stay as they are."""
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in batch.items()}


def pad(rows: Sequence[NDArray[Any]], fill: float, length: int = 0) -> Tensor:
    """Join rows of different lengths to one tensor, filled up at the end, to `length` or more."""
    longest = max(length, *map(len, rows))
    padded = np.full((len(rows), longest, *rows[0].shape[1:]), fill, rows[0].dtype)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
    return torch.from_numpy(padded)


def mask_of(lengths: Sequence[int], length: int = 0) -> Tensor:
    """Return the attention mask of rows of these lengths: 1 for a token, 0 for padding."""
    return (torch.arange(max(length, *lengths))[None, :] < torch.tensor(lengths)[:, None]).long()


def make_inputs(settings: Model, backbone: Backbone) -> Inputs:
    """Return a backbone's inputs: its own size, normalisation and tokenizer, or those of the settings."""
    config = backbone.model.config
    folder = locate(settings.backbone)
    return (
        _image_inputs(settings, config, folder)
        if settings.task == "image"
        else _text_inputs(settings, config, folder)
    )


def _image_inputs(settings: Model, config: PretrainedConfig, folder: str) -> ImageInputs:
    stored = {} if settings.mean and settings.std else _stored_normalisation(settings, folder)
    mean = settings.mean or stored.get("image_mean") or [0.5] * 3
    std = settings.std or stored.get("image_std") or [0.5] * 3
    # One number is for all three colours; a checkpoint of grey images stores one, too.
    mean, std = (list(values) * 3 if len(values) == 1 else values for values in (mean, std))
    for name, values in (("mean", mean), ("std", std)):
        if len(values) != 3:
            raise InputError(
                f"model.{name}: the checkpoint has {counted(len(values), 'number')}; give three, for red, "
                "green and blue"
            )
    own = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
    size, patch = settings.image_size or own, config.patch_size
    if size % (patch if isinstance(patch, int) else patch[0]):
        raise InputError(f"model.image_size: {size} is no multiple of the model's patch of {patch} pixels")
    return ImageInputs(size, mean, std, interpolate=size != own)


def _stored_normalisation(settings: Model, folder: str) -> Mapping[str, Any]:
    """Return the normalisation that the checkpoint stores, in a folder or the hub's cache; empty if none."""
    try:
        path = cached_file(folder, "preprocessor_config.json", _raise_exceptions_for_missing_entries=False)
        found = json.loads(Path(path).read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise InputError(
            f"model.mean: {settings.backbone!r} has no readable preprocessor_config.json ({reason}); "
            "give model.mean and model.std"
        ) from None
    return found if isinstance(found, dict) else {}


def _text_inputs(settings: Model, config: PretrainedConfig, folder: str) -> TextInputs:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise InputError(
            f"model.backbone: {settings.backbone!r} has no usable tokenizer ({reason})"
        ) from None
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers makes one up if there is no file
        raise InputError(f"model.backbone: {settings.backbone!r} has no usable tokenizer (no vocabulary)")
    # RoBERTa's positions start behind its padding index, so it has that many fewer.
    offset = config.pad_token_id + 1 if config.model_type in ("roberta", "xlm-roberta", "camembert") else 0
    most = int(config.max_position_embeddings) - offset
    if settings.max_length is not None and settings.max_length > most:
        raise InputError(
            f"model.max_length: {settings.max_length} is more than the model's {counted(most, 'position')}"
        )
    return TextInputs(tokenizer, settings.max_length or most, settings.too_long == "cut")
