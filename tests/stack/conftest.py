"""Tiny random models of every supported class, saved as a user would have them: folders with a config."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
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

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(40))]
SHAPE = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
IMAGE = {"image_size": 8, "patch_size": 4, **SHAPE}
TEXT = {"vocab_size": len(WORDS), "max_position_embeddings": 34, "pad_token_id": 0, **SHAPE}
DISTIL = {"vocab_size": len(WORDS), "max_position_embeddings": 34, "dim": 32, "n_heads": 4, "hidden_dim": 48}

IMAGE_MODELS = ("vit", "deit")
TEXT_MODELS = ("bert", "roberta", "distilbert")
ALL_MODELS = (*IMAGE_MODELS, *TEXT_MODELS)


def tiny_model(name: str, layers: int = 3) -> PreTrainedModel:
    """Dropout stays on in the configurations: training must not be touched by it."""
    torch.manual_seed(sum(map(ord, name)))
    made: dict[str, PreTrainedModel] = {
        "vit": ViTForImageClassification(ViTConfig(num_hidden_layers=layers, hidden_dropout_prob=0.1, **IMAGE)),
        "deit": DeiTForImageClassification(DeiTConfig(num_hidden_layers=layers, **IMAGE)),
        "bert": BertForSequenceClassification(BertConfig(num_hidden_layers=layers, **TEXT)),
        "roberta": RobertaForSequenceClassification(RobertaConfig(num_hidden_layers=layers, **TEXT)),
        "distilbert": DistilBertForSequenceClassification(DistilBertConfig(n_layers=layers, **DISTIL)),
    }
    return made[name]


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **special)


def save_model(folder: Path, name: str, layers: int = 3) -> Path:
    tiny_model(name, layers).save_pretrained(folder)
    if name in TEXT_MODELS:
        tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: save_model(root / name, name) for name in ALL_MODELS}


def some_contents(name: str, count: int) -> list[tuple[bytes | str, ...]]:
    """Images as PGM files, or texts of different lengths."""
    rng = np.random.default_rng(7)
    if name in IMAGE_MODELS:
        return [(b"P5 8 8 255\n" + rng.integers(0, 256, 64, dtype=np.uint8).tobytes(),) for _ in range(count)]
    lengths = rng.integers(3, 12, count)
    return [(" ".join(f"w{word}" for word in rng.integers(0, 40, length)),) for length in lengths]
