"""A tiny world to train in: random models, four clients with a few records each, whole runs in a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    ViTConfig,
    ViTForImageClassification,
)

from fedsgt.build.build import Build
from fedsgt.build.client_access import LOCAL
from fedsgt.build.prepare import Prepared, describe, prepare
from fedsgt.build.targets import Target
from fedsgt.build.train import train
from fedsgt.config import Config, load
from fedsgt.data.slices import slice_of
from fedsgt.engine.events import ClientTrouble, Event, ModuleFinished, RoundFinished, ignore
from fedsgt.runs.folder import RunFolder, create_run

CLIENTS, SLICES, GROUPS, LABELS = 4, 2, 3, 3
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(12))]
SHAPE: dict[str, Any] = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
}
Made = dict[tuple[int, ...], tuple[str, str]]
"""Groups of a prefix to its module's key and hash."""


@dataclass(frozen=True)
class Row:
    id: str
    client: str
    label: int
    content: bytes | str


@dataclass(frozen=True)
class World:
    """Folder of the models, and the records; a world with other records is another world."""

    folder: Path
    task: str
    rows: tuple[Row, ...]

    def config(self, *overrides: str) -> Config:
        """Return the configuration of a run of this world, trained inside this process."""
        data = self.folder / f"data-{abs(hash((self.task, self.rows)))}"
        if not data.exists():
            write_rows(data, self.rows, "image" if self.task == "image" else "sentence")
        return load(
            None,
            [
                f"data.source={data}",
                "data.partition=given",
                "data.erase=tombstone",  # tests share the file
                f"data.clients={CLIENTS}",
                f"data.labels={LABELS}",
                f"grouping.slices={SLICES}",
                f"grouping.groups={GROUPS}",
                f"model.task={self.task}",
                f"model.backbone={self.folder / ('vit' if self.task == 'image' else 'bert')}",
                "model.device=cpu",
                "peft.rank=2",
                "peft.tokens=2",
                "peft.hidden=8",
                "training.epochs=1",
                "training.batch_size=4",
                "training.learning_rate=0.02",
                # Most tests are about trained heads; those of solved ones ask for them.
                "heads.solve=false",
                "engine.workers=0",
                *overrides,
            ],
        )

    def inside(self, prepared: Prepared, group: int, client: str | None = None) -> list[Row]:
        """Return the records of one group (of one client), by id."""
        places = {
            (prepared.clients[number].name, index) for number, index in prepared.grouping.slice_ids(group)
        }
        return [
            row
            for row in sorted(self.rows, key=lambda row: row.id)
            if (row.client, slice_of(row.id, f"0/{row.client}", SLICES)) in places
            and client in (None, row.client)
        ]

    def without(self, gone: Iterable[Row]) -> World:
        left = set(gone)
        return replace(self, rows=tuple(row for row in self.rows if row not in left))

    def instead(self, old: Row, **changes: Any) -> World:
        return replace(self, rows=tuple(replace(r, **changes) if r == old else r for r in self.rows))


def image_rows(each: int = 12) -> tuple[Row, ...]:
    """Return small PGM files in which the labels show, so that there is something to learn."""
    rng = np.random.default_rng(1)
    rows = []
    for number in range(CLIENTS * each):
        label = int(rng.integers(LABELS))
        pixels = rng.integers(0, 120, 64, dtype=np.uint8)
        pixels[label * 16 : label * 16 + 16] += 100
        rows.append(Row(f"r{number:03d}", f"c{number % CLIENTS}", label, pgm(pixels)))
    return tuple(rows)


def pgm(pixels: np.ndarray) -> bytes:
    return b"P5 8 8 255\n" + pixels.astype(np.uint8).tobytes()


def text_rows(each: int = 12) -> tuple[Row, ...]:
    """Return texts of different lengths, so that batches are padded."""
    rng = np.random.default_rng(2)
    rows = []
    for number in range(CLIENTS * each):
        label, length = int(rng.integers(LABELS)), int(rng.integers(1, 12))
        words = [f"w{word}" for word in rng.integers(0, 12, length)]
        rows.append(Row(f"t{number:03d}", f"c{number % CLIENTS}", label, " ".join([f"w{label}", *words])))
    return tuple(rows)


def write_rows(folder: Path, rows: Sequence[Row], column: str) -> Path:
    """Write a source with its test part."""
    folder.mkdir(parents=True)
    for part, chosen in (("train", rows), ("test", rows[:6])):
        columns = {
            "id": [row.id for row in chosen],
            "label": [row.label for row in chosen],
            column: [row.content for row in chosen],
            "client": [row.client for row in chosen],
        }
        pq.write_table(pa.table(columns), folder / f"{part}.parquet")
    return folder


def make_world(folder: Path, task: str) -> World:
    """Make the records and, once for each folder, the models."""
    if not (folder / "vit").exists():
        save_models(folder)
    return World(folder, task, image_rows() if task == "image" else text_rows())


def save_models(folder: Path, seed: int = 5) -> None:
    """Save models whose settings have dropout on, which must not touch training."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        image = ViTConfig(image_size=8, patch_size=4, hidden_dropout_prob=0.1, **SHAPE)
        text = BertConfig(vocab_size=len(WORDS), max_position_embeddings=20, pad_token_id=0, **SHAPE)
        ViTForImageClassification(image).save_pretrained(folder / "vit")
        BertForSequenceClassification(text).save_pretrained(folder / "bert")
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **special)
    tokenizer.save_pretrained(folder / "bert")


class Quiet:
    """A listener that shows nothing and remembers what was done."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def rounds(self) -> list[tuple[tuple[int, ...], int]]:
        """Prefix and number of each finished round."""
        return [(event.groups, event.round) for event in self.events if isinstance(event, RoundFinished)]

    @property
    def modules(self) -> list[tuple[int, ...]]:
        """Prefix of each finished module."""
        return [event.groups for event in self.events if isinstance(event, ModuleFinished)]

    @property
    def troubles(self) -> list[tuple[str, str]]:
        """Client and reason of each trouble."""
        return [(event.client, event.what) for event in self.events if isinstance(event, ClientTrouble)]


def made(folder: RunFolder) -> Made:
    """Return the modules of a run, read again and checked."""
    found: Made = {}
    for entry in folder.description.modules:
        assert folder.modules.state(entry.key) == "present"
        found[tuple(entry.groups)] = (entry.key, folder.modules.manifest(entry.key).sha256)
    return found


def trained(path: Path, run: Config) -> Made:
    """Train a whole run as the command does, and return its modules."""
    return made(train(run, path, Quiet()))


def started(path: Path, run: Config) -> tuple[Prepared, RunFolder]:
    """Return a run before its training."""
    prepared = prepare(run)
    return prepared, create_run(path, prepared.run, describe(prepared))


def build(
    prepared: Prepared,
    folder: RunFolder,
    targets: Sequence[Target] | None = None,
    priority: Callable[[Target], float] | None = None,
) -> Quiet:
    """Run a build with an engine of its own."""
    quiet, training = Quiet(), prepared.run.training
    with LOCAL.engine(folder, prepared, ignore) as engine:
        job = Build(prepared.recipe, folder.modules, engine, training.rounds, training.seed, quiet)
        job.run(prepared.targets if targets is None else targets, priority)
    return quiet
