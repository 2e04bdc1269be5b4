"""Tiny random models of every supported class, saved as a user would have them: folders with a config."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    DeiTConfig,
    DeiTForImageClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    ViTConfig,
    ViTForImageClassification,
)

from fedsgt.config.sections import Model, Peft
from fedsgt.files.tensors import Tensors
from fedsgt.stack import profile
from fedsgt.stack.backbone import Backbone, load_backbone
from fedsgt.stack.inputs import Batch, Content, Inputs, make_inputs
from fedsgt.stack.stack import Stack

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(40))]
SHAPE: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
IMAGE: dict[str, Any] = {"image_size": 8, "patch_size": 4, **SHAPE}
TEXT: dict[str, Any] = {
    "vocab_size": len(WORDS),
    "max_position_embeddings": 34,
    "pad_token_id": 0,
    **SHAPE,
}
DISTIL: dict[str, Any] = {
    "vocab_size": len(WORDS),
    "max_position_embeddings": 34,
    "dim": 32,
    "n_heads": 4,
    "hidden_dim": 48,
}

IMAGE_MODELS = ("vit", "deit")
TEXT_MODELS = ("bert", "roberta", "distilbert")
ALL_MODELS = (*IMAGE_MODELS, *TEXT_MODELS)
KINDS = ("lora", "ia3", "prefix")
LABELS = 5
SMALL: dict[str, Any] = {"rank": 2, "alpha": 3.0, "tokens": 3, "hidden": 8}


def tiny_model(name: str, layers: int = 3) -> PreTrainedModel:
    """Make a model whose configuration has dropout on: training must not be touched by it."""
    torch.manual_seed(sum(map(ord, name)))
    made: dict[str, PreTrainedModel] = {
        "vit": ViTForImageClassification(
            ViTConfig(num_hidden_layers=layers, hidden_dropout_prob=0.1, **IMAGE)
        ),
        "deit": DeiTForImageClassification(DeiTConfig(num_hidden_layers=layers, **IMAGE)),
        "bert": BertForSequenceClassification(BertConfig(num_hidden_layers=layers, **TEXT)),
        "roberta": RobertaForSequenceClassification(RobertaConfig(num_hidden_layers=layers, **TEXT)),
        "distilbert": DistilBertForSequenceClassification(DistilBertConfig(n_layers=layers, **DISTIL)),
    }
    for parameter in made[name].parameters():  # far from the start's zeros and ones, so that each one counts
        parameter.data += 0.05 * torch.randn(parameter.shape)
    return made[name]


def tiny_tokenizer(name: str) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    # DistilBERT has no use for token types and gets them all the same, from BERT's tokenizer.
    kept = ["input_ids"] if name == "roberta" else ["input_ids", "token_type_ids"]
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_input_names=kept, **special)


def save_model(folder: Path, name: str, layers: int = 3) -> Path:
    tiny_model(name, layers).save_pretrained(folder)
    if name in TEXT_MODELS:
        tiny_tokenizer(name).save_pretrained(folder)
    return folder


def some_contents(name: str, count: int) -> list[Content]:
    """Return images as PGM files, or texts of different lengths."""
    rng = np.random.default_rng(7)
    if name in IMAGE_MODELS:
        return [(b"P5 8 8 255\n" + rng.integers(0, 256, 64, dtype=np.uint8).tobytes(),) for _ in range(count)]
    lengths = rng.integers(3, 12, count)
    return [(" ".join(f"w{word}" for word in rng.integers(0, 40, length)),) for length in lengths]


class Tiny:
    """The tiny models, and what most tests do with them."""

    def __init__(self, root: Path) -> None:
        self.folders = {name: save_model(root / name, name) for name in ALL_MODELS}

    def save(self, folder: Path, name: str, layers: int = 3) -> Path:
        return save_model(folder, name, layers)

    def task(self, name: str) -> Any:
        return "image" if name in IMAGE_MODELS else "text"

    def settings(self, name: str, **settings: Any) -> Model:
        return Model(**({"backbone": str(self.folders[name]), "task": self.task(name)} | settings))

    def backbone(self, name: str, labels: int = LABELS) -> Backbone:
        return load_backbone(str(self.folders[name]), self.task(name), labels)

    def plain(self, folder: Path, task: str) -> Any:
        """Load the model as anybody does without this project; the head in the file may have another size."""
        auto: Any = AutoModelForImageClassification if task == "image" else AutoModelForSequenceClassification
        return auto.from_pretrained(folder, num_labels=LABELS, ignore_mismatched_sizes=True).eval()

    def stack(self, name: str, kind: Any = "lora", **settings: Any) -> Stack:
        """Make a stack on a backbone of its own; copied, because loading takes longer."""
        known = self.untouched(name)
        return Stack(Backbone(deepcopy(known.model), known.head), Peft(**({"kind": kind} | SMALL | settings)))

    def inputs(self, name: str, **settings: Any) -> Inputs:
        return make_inputs(self.settings(name, **settings), self.untouched(name))

    @cache  # noqa: B019 - one for the session
    def untouched(self, name: str) -> Backbone:
        """Return a backbone without a stack, for its names and configuration."""
        return self.backbone(name)

    @cache  # noqa: B019
    def batch(self, name: str) -> Batch:
        """Return a batch of six records."""
        inputs = self.inputs(name)
        return inputs.batch([inputs.item("some", content) for content in some_contents(name, 6)])

    def modules(self, stack: Stack, count: int) -> list[Tensors]:
        """Return modules as after some training: no value in them is zero, one, or in another module."""
        rng = np.random.default_rng(count)
        made = []
        for number in range(count):
            module = stack.finish(stack.begin(number, stack.initial_head(number)))
            noise = {key: rng.standard_normal(array.shape, np.float32) for key, array in module.items()}
            made.append({key: array + np.float32(0.3) * noise[key] for key, array in module.items()})
        return made

    def logits(self, stack: Stack, modules: Sequence[Tensors], batch: Batch) -> torch.Tensor:
        stack.load(modules)
        with torch.no_grad():
            return stack.logits(batch)

    def own_name(self, name: str, candidates: Sequence[str]) -> str:
        """Return the name that this class has for a linear layer."""
        known = [place for place, _ in self.untouched(name).model.named_modules()]
        return next(wanted for wanted in candidates if any(place.endswith(f".{wanted}") for place in known))

    def train(self, stack: Stack, parents: Sequence[Tensors], batch: Batch, seed: int = 0) -> Tensors:
        """Train one phase of two steps on top of these modules."""
        stack.load(parents)
        opened = stack.open(stack.begin(seed, parents[-1] if parents else stack.initial_head(seed)))
        optimizer = torch.optim.SGD([value for value in opened.values() if value.requires_grad], lr=0.5)
        for _ in range(2):
            optimizer.zero_grad()
            logits = stack.logits(batch)
            loss = torch.nn.functional.cross_entropy(logits, torch.arange(len(logits)) % LABELS)
            torch.autograd.backward(loss)
            optimizer.step()
        return stack.finish(stack.snapshot())


@pytest.fixture(scope="session", autouse=True)
def as_in_training() -> None:
    profile.apply()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("models"))


@pytest.fixture(params=ALL_MODELS)
def model(request: pytest.FixtureRequest) -> str:
    """Run a test that asks for this with every class of model."""
    return str(request.param)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Run a test that asks for this with every kind of module."""
    return str(request.param)
