"""The paper's six tasks are ready for a GPU; only the hub and the pretrained weights are stood in for."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_world import build, started
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    ViTConfig,
    ViTForImageClassification,
)

from fedsgt.config import Config, load
from fedsgt.config.systems import SYSTEMS
from fedsgt.runs.records import load_test
from fedsgt.stack.inputs import Inputs

datasets = import_module("datasets")
image = import_module("PIL.Image")

FOLDER = Path(__file__).parents[2] / "experiments/tasks/paper"
RECORDS = 500
WORDS = ["<s>", "<pad>", "</s>", "<unk>", *(f"w{number}" for number in range(12))]
START, END = 0, 2
SHAPE: dict[str, Any] = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
}


@dataclass(frozen=True)
class Task:
    """Data set and labels that the hub has under the configuration's names."""

    asked: tuple[str, str | None]
    labels: Mapping[str, int]
    inputs: tuple[str, ...]
    test: str
    vision: bool = False


CIFAR10 = Task(("uoft-cs/cifar10", None), {"label": 10}, ("img",), "test", vision=True)
CIFAR100 = Task(
    ("uoft-cs/cifar100", None), {"fine_label": 100, "coarse_label": 20}, ("img",), "test", vision=True
)
TASKS = {
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "sst2": Task(("nyu-mll/glue", "sst2"), {"label": 2}, ("sentence",), "validation"),
    "qqp": Task(("nyu-mll/glue", "qqp"), {"label": 2}, ("question1", "question2"), "validation"),
    "qnli": Task(("nyu-mll/glue", "qnli"), {"label": 2}, ("question", "sentence"), "validation"),
    "mnli": Task(("nyu-mll/glue", "mnli"), {"label": 3}, ("premise", "hypothesis"), "validation_matched"),
}


def png(rng: np.random.Generator) -> bytes:
    buffer = io.BytesIO()
    image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def text(rng: np.random.Generator) -> str:
    return " ".join(f"w{word}" for word in rng.integers(0, 12, rng.integers(1, 90)))


def split(task: Task, count: int, seed: int) -> Any:
    """Rows with the columns of the hub's data set, GLUE's own ids among them."""
    rng = np.random.default_rng(seed)
    kind = datasets.Image() if task.vision else datasets.Value("string")
    features: dict[str, Any] = dict.fromkeys(task.inputs, kind)
    features |= {name: datasets.ClassLabel(num_classes=number) for name, number in task.labels.items()}
    rows: dict[str, list[Any]] = {
        name: [{"bytes": png(rng), "path": None} if task.vision else text(rng) for _ in range(count)]
        for name in task.inputs
    }
    rows |= {name: rng.integers(0, number, count).tolist() for name, number in task.labels.items()}
    if not task.vision:
        features["idx"], rows["idx"] = datasets.Value("int32"), list(range(count))
    return datasets.Dataset.from_dict(rows, features=datasets.Features(features))


def splits(task: Task) -> Any:
    parts = {"train": split(task, RECORDS, 0), task.test: split(task, 20, 1)}
    if not task.vision:  # as GLUE has it: no label is known
        hidden = split(task, 20, 2)
        parts["test"] = hidden.remove_columns("label").add_column("label", [-1] * len(hidden))
    return datasets.DatasetDict(parts)


@pytest.fixture(scope="module")
def backbones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny random models of the two classes; RoBERTa's has as many positions as the large one."""
    folder = tmp_path_factory.mktemp("backbones")
    positions: dict[str, Any] = {"vocab_size": len(WORDS), "max_position_embeddings": 514, "pad_token_id": 1}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        ViTForImageClassification(ViTConfig(image_size=8, patch_size=4, **SHAPE)).save_pretrained(
            folder / "vit"
        )
        RobertaForSequenceClassification(
            RobertaConfig(type_vocab_size=1, **positions, **SHAPE)
        ).save_pretrained(folder / "roberta")
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.RobertaProcessing(("</s>", END), ("<s>", START))
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    PreTrainedTokenizerFast(
        tokenizer_object=inner, model_input_names=["input_ids", "attention_mask"], **special
    ).save_pretrained(folder / "roberta")
    return folder


def test_there_is_a_file_for_each_task() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.toml")) == sorted(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_its_hyperparameters_are_the_papers(name: str) -> None:
    run, vision = load(FOLDER / f"{name}.toml"), TASKS[name].vision
    backbone = "google/vit-base-patch16-224-in21k" if vision else "FacebookAI/roberta-large"
    assert (run.model.backbone, run.model.task) == (backbone, "image" if vision else "text")
    assert (run.peft.kind, run.peft.rank, run.peft.alpha) == ("lora", 16, 16 if vision else 32)
    assert (run.training.learning_rate, run.training.epochs) == ((2e-3, 3) if vision else (1e-4, 5))
    assert (run.training.rounds, run.training.batch_size) == (1, 32)
    assert (run.data.clients, run.data.partition, run.data.alpha) == (10, "dirichlet", 0.3)
    assert (run.grouping.method, run.grouping.groups, run.grouping.slices) == ("random", 10, 5)
    assert (run.plan.kind, run.plan.budget) == ("rotations", 10)
    assert (run.data.limit, run.data.test_limit, run.serving.strategy) == (None, None, "all")
    assert load(FOLDER / f"{name}.toml", ["data.partition=iid"]).data.partition == "iid"


@pytest.mark.parametrize("name", TASKS)
def test_it_is_the_same_task_for_every_system(name: str) -> None:
    own = load(FOLDER / f"{name}.toml")
    for system in SYSTEMS.values():
        run = load(FOLDER / f"{name}.toml", system.overrides)
        assert (run.model, run.peft) == (own.model, own.peft)
        assert (run.data.source, run.data.input_columns) == (own.data.source, own.data.input_columns)
        assert run.training.learning_rate == own.training.learning_rate
        assert run.training.epochs == own.training.epochs


@pytest.mark.parametrize("name", TASKS)
def test_it_trains_with_a_tiny_model_of_its_class(
    name: str, backbones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else as in the file, so the plan is whole; the first two modules of its hundred are trained."""
    task, asked = TASKS[name], list[Any]()

    def load_dataset(*arguments: Any) -> Any:
        asked.append(arguments)
        return splits(task)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    backbone = backbones / ("vit" if task.vision else "roberta")
    stand_ins = [f"model.backbone={backbone}", "model.device=cpu", "engine.workers=0"]
    run = load(FOLDER / f"{name}.toml", stand_ins)
    prepared, folder = started(tmp_path / "run", run)
    prepared.check_contents()
    assert set(asked) == {task.asked}
    assert prepared.data.labels == next(iter(task.labels.values()))
    assert len(prepared.targets) == 100
    done = build(prepared, folder, prepared.targets[:2])
    assert done.modules == [target.groups for target in prepared.targets[:2]]
    assert len(load_test(run)) == 20
    if not task.vision:
        check_texts(run, task.inputs, prepared.model.inputs)


def check_texts(run: Config, columns: tuple[str, ...], inputs: Inputs) -> None:
    """Two columns reach the tokenizer as a pair, in RoBERTa's way, and are cut to 128 tokens together."""
    assert run.data.input_columns == list(columns)
    content = ("w1 w2", "w3")[: len(columns)]
    one, two, three = (WORDS.index(word) for word in ("w1", "w2", "w3"))
    second = [END, three, END] if len(columns) == 2 else []
    assert inputs.item("r", content)["input_ids"].tolist() == [START, one, two, END, *second]
    long = tuple(" ".join(["w1"] * 100) for _ in columns)
    assert len(inputs.item("r", long)["input_ids"]) == (128 if len(columns) == 2 else 102)
    first = load_test(run).records[0]
    pieces = inputs.item(first.id, first.content)["input_ids"].tolist()
    assert pieces.count(END) == (3 if len(columns) == 2 else 1)
