"""The frozen pretrained model: loaded from a hub id or a folder, never changed, known by its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from logging import CRITICAL
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification, PreTrainedModel
from transformers.utils import logging

from fedsgt.errors import BackboneChanged, InputError
from fedsgt.stack.checkpoint_files import check_task, locate
from fedsgt.words import counted

CLASSES = {"image": AutoModelForImageClassification, "text": AutoModelForSequenceClassification}
# Left out of the hash: labels belong to the head, and the rest tells where the files came from.
NOT_IN_HASH = ("id2label", "label2id", "num_labels", "problem_type", "transformers_version", "_name_or_path")


@dataclass(frozen=True, eq=False)
class Backbone:
    """A classification model with all parameters frozen; the head's are set by each module."""

    model: PreTrainedModel
    head: tuple[str, ...]
    """Names of the head's parameters: those outside the trunk, and those that the checkpoint lacks."""
    hash: str = field(init=False)
    """SHA-256 of architecture and weights as loaded."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hash", self.hash_now())

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Frozen parameters and buffers, by the checkpoint's names."""
        held = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        # Sorted, so that the hash does not depend on the order in which a version of the library makes them.
        return {name: held[name] for name in sorted(held) if name not in self.head}

    def hash_now(self) -> str:
        """Return the hash of the bytes as they are now."""
        code = hashlib.sha256(json.dumps(self._architecture(), sort_keys=True).encode())
        for name, tensor in self.tensors.items():
            code.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            code.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        return code.hexdigest()

    def check(self) -> None:
        """Raise if the frozen backbone was modified: everything trained since must be discarded."""
        if self.hash_now() != self.hash:
            raise BackboneChanged(
                "the backbone's weights were changed during training: no module of this build can be trusted"
            )

    def _architecture(self) -> dict[str, Any]:
        known = self.model.config.to_diff_dict()
        # Types are left out too: the hash of each tensor has its own.
        return {key: value for key, value in known.items() if key not in NOT_IN_HASH and "dtype" not in key}


def load_backbone(name: str, task: str, labels: int) -> Backbone:
    """Load the model in float32, all frozen, with a new head of `labels` outputs."""
    check_task(name, task)
    with _quiet():
        model, loading = _from_pretrained(name, task, labels)
    trunk = f"{model.base_model_prefix}."
    # Weights that the checkpoint lacks, or has in another shape, are random and must belong to the head.
    fresh = set(loading["missing_keys"]) | {entry[0] for entry in loading["mismatched_keys"]}
    head = tuple(
        sorted(key for key, _ in model.named_parameters() if not key.startswith(trunk) or key in fresh)
    )
    _check_trunk(name, model, head)
    model.requires_grad_(False)
    return Backbone(model.eval(), head)  # evaluation mode: dropout would draw numbers that no seed controls


def _from_pretrained(name: str, task: str, labels: int) -> tuple[PreTrainedModel, dict[str, Any]]:
    place = locate(name)
    try:
        found = CLASSES[task].from_pretrained(
            place,
            num_labels=labels,
            ignore_mismatched_sizes=True,  # the checkpoint's head may have another number of labels
            output_loading_info=True,
            dtype=torch.float32,  # whatever the checkpoint has: bytes must not depend on its precision
            attn_implementation="sdpa",  # named, because the default depends on installed versions
        )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        # The first line says what is wrong; the rest of what transformers says is general advice.
        reason = str(error).strip().splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(
            f"model.backbone: {name!r} cannot be loaded for {task} classification ({reason})"
        ) from None
    return found  # type: ignore[no-any-return]


def _check_trunk(name: str, model: PreTrainedModel, head: tuple[str, ...]) -> None:
    """Raise if the checkpoint lacks weights of the trunk, which would otherwise be random.

    Only a pooler may be new: it comes last and counts as part of the head.
    """
    trunk = f"{model.base_model_prefix}."
    missing = [key for key in head if key.startswith(trunk) and not key.startswith(f"{trunk}pooler.")]
    if missing:
        raise InputError(
            f"model.backbone: {name!r} lacks {counted(len(missing), 'weight')} of its architecture, "
            f"such as {missing[0]}"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the loading report of transformers, which warns of a new head: here it is always new."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
