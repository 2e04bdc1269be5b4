"""Training against the plain transformers and peft loop: same model, data, order and steps, in one run.

CPU time of one thread, both sides in turn; whole sequences, in which phase d trains on d groups' records.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedsgt.stack import profile

os.environ.update(profile.environment())

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    PreTrainedModel,
    RobertaConfig,
    RobertaForSequenceClassification,
    ViTConfig,
    ViTForImageClassification,
)

from fedsgt.config.sections import Peft, Training
from fedsgt.data import Record
from fedsgt.engine.local_update import local_update
from fedsgt.files.tensors import Tensors
from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.inputs import Batch, Item, hidden_batch
from fedsgt.stack.stack import Stack

LABELS, RANK, LENGTH, GROUP, BATCH = 10, 16, 10, 64, 32
LEARNING = Training(learning_rate=1e-3, epochs=1, batch_size=BATCH, clip=1.0)


@dataclass(frozen=True)
class Case:
    """A model and records for it."""

    name: str
    task: str
    folder: str
    items: list[Item]
    labels: list[int]
    batch: Callable[[Sequence[Item]], Batch]

    def part(self, groups: int) -> tuple[list[Item], list[int]]:
        return self.items[: groups * GROUP], self.labels[: groups * GROUP]


def make_case(name: str, folder: Path) -> Case:
    """Make a case with random weights and records, which do not change the cost of a step."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, LABELS, LENGTH * GROUP).tolist()
    model: PreTrainedModel
    items: list[Item]
    if name == "vit":
        shape: dict[str, Any] = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
        model = ViTForImageClassification(
            ViTConfig(image_size=32, patch_size=4, num_hidden_layers=6, **shape)
        )
        items = [{"pixels": rng.standard_normal((3, 32, 32), dtype=np.float32)} for _ in labels]
        batch = _pixels
    else:
        shape = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
        model = RobertaForSequenceClassification(RobertaConfig(vocab_size=5000, num_hidden_layers=6, **shape))
        items = [{"input_ids": rng.integers(5, 5000, 32)} for _ in labels]
        batch = _tokens
    model.save_pretrained(folder / name)
    return Case(name, "image" if name == "vit" else "text", str(folder / name), items, labels, batch)


def _pixels(items: Sequence[Item]) -> Batch:
    return {"pixel_values": torch.from_numpy(np.stack([item["pixels"] for item in items]))}


def _tokens(items: Sequence[Item]) -> Batch:
    ids = torch.from_numpy(np.stack([item["input_ids"] for item in items]))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


class Ours:
    """The project's own local update, phase after phase, as a client runs it."""

    def __init__(self, case: Case, layers: Literal["all"] | int = "all") -> None:
        self.case = case
        self.stack = Stack(load_backbone(case.folder, case.task, LABELS), Peft(rank=RANK, layers=layers))
        self.modules: list[Tensors] = []
        self.hidden: list[Item] = []

    def starting_state(self, seed: int) -> Tensors:
        head = self.modules[-1] if self.modules else self.stack.initial_head(0)
        return self.stack.begin(seed, head)

    def phase(self, depth: int) -> float:
        state = self.starting_state(depth)
        items, labels = self.case.part(depth)
        started = time.process_time()
        self.stack.load(self.modules)
        batch: Callable[[Sequence[Item]], Batch] = self.case.batch
        if self.stack.start:
            items, batch = self._lower(items), lambda chosen: hidden_batch(chosen, self.case.task == "text")
        records = (Record(str(number), ("",), label) for number, label in enumerate(labels))
        examples = list(zip(records, items, strict=True))
        update = local_update(self.stack, state, examples, batch, LEARNING, depth, "client")
        spent = time.process_time() - started
        self.modules.append(self.stack.finish(update.state))
        return spent

    def _lower(self, items: list[Item]) -> list[Item]:
        """Return the lower layers' output, computed once for each record as by the engine's cache."""
        while len(self.hidden) < len(items):
            chosen = items[len(self.hidden) : len(self.hidden) + BATCH]
            self.hidden += [{"hidden": row} for row in self.stack.lower(self.case.batch(chosen)).numpy()]
        return self.hidden[: len(items)]

    def logits(self) -> torch.Tensor:
        self.stack.load(self.modules)
        with torch.no_grad():
            return self.stack.logits(self.case.batch(self.case.items[:BATCH]))


class Plain:
    """Plain loop that a person would write with transformers and peft: a new adapter for each phase."""

    def __init__(self, case: Case, twin: Ours) -> None:
        self.case, self.twin = case, twin
        linears = list(twin.stack.places.linears)
        self.config = LoraConfig(r=RANK, lora_alpha=16, target_modules=linears, lora_dropout=0.0)
        base = load_backbone(case.folder, case.task, LABELS).model
        self.model: PeftModel = get_peft_model(base, self.config, adapter_name="phase1")
        self.model.eval()

    def phase(self, depth: int) -> float:
        names = [f"phase{number}" for number in range(1, depth + 1)]
        if depth > 1:
            self.model.add_adapter(names[-1], self.config)
        base: Any = self.model.base_model
        base.set_adapter(names)
        self._start_as(self.twin.starting_state(depth), names[-1])
        trained = [value for value in self.model.parameters() if value.requires_grad]
        items, labels = self.case.part(depth)
        order = np.random.default_rng(depth).permutation(len(items)).tolist()
        started = time.process_time()
        optimizer = torch.optim.AdamW(trained, lr=LEARNING.learning_rate, weight_decay=0.0)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            logits = self.model(**self.case.batch([items[index] for index in chosen])).logits
            loss = torch.nn.functional.cross_entropy(
                logits, torch.tensor([labels[index] for index in chosen])
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
        return time.process_time() - started

    def _start_as(self, state: Tensors, name: str) -> None:
        """Train the last adapter and the head only, from the same starting values as the other side."""
        with torch.no_grad():
            for key, value in self.model.named_parameters():
                plain = key.removeprefix("base_model.model.")
                mine = f".{name}." in key or f"head.{plain}" in state
                value.requires_grad_(mine)
                if f"head.{plain}" in state:
                    value.copy_(torch.from_numpy(state[f"head.{plain}"]))
                elif mine:
                    side = "lora_A" if "lora_A" in key else "lora_B"
                    value.copy_(torch.from_numpy(state[f"{plain.split('.lora_')[0]}.{side}"]))

    def logits(self) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = self.model(**self.case.batch(self.case.items[:BATCH])).logits
        return found


def compare(case: Case, repeats: int) -> None:
    """Print the best time of some whole sequences on each side, phase by phase in turn."""
    best = {"plain": [float("inf")] * LENGTH, "ours": [float("inf")] * LENGTH, "top": [float("inf")] * LENGTH}
    for _ in range(repeats):
        ours, top = Ours(case), Ours(case, layers=2)
        plain = Plain(case, ours)
        for depth in range(1, LENGTH + 1):
            for name, side in (("plain", plain), ("ours", ours), ("top", top)):
                best[name][depth - 1] = min(best[name][depth - 1], side.phase(depth))
        gap = float((ours.logits() - plain.logits()).abs().max())
    steps = [depth * GROUP // BATCH for depth in range(1, LENGTH + 1)]
    print(f"\n{case.name}: CPU ms a step of {BATCH} records, LoRA of rank {RANK} on query and value")
    print("phase        " + "".join(f"{depth:8d}" for depth in range(1, LENGTH + 1)) + "   sequence")
    for name, label in (("plain", "peft"), ("ours", "fedsgt"), ("top", "top third")):
        cells = [1000 * spent / count for spent, count in zip(best[name], steps, strict=True)]
        print(f"{label:<13}" + "".join(f"{cell:8.1f}" for cell in cells) + f"{sum(best[name]):9.2f} s")
    first, whole = best["plain"][0] / best["ours"][0], sum(best["plain"]) / sum(best["ours"])
    third = sum(best["plain"]) / sum(best["top"])
    print(
        f"faster than peft: {first:.2f}x at depth 1, {whole:.2f}x over the sequence; modules in the top third"
    )
    print(f"with kept lower activations (another model): {third:.2f}x. Largest gap of logits: {gap:.1e}")


def main() -> None:
    warnings.simplefilter("ignore")
    profile.apply()
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    print(
        f"{profile.machine()['cpu']}, one thread, best of {repeats}; {LENGTH} phases, {GROUP} records a group"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in ("vit", "roberta"):
            compare(make_case(name, Path(folder)), repeats)


if __name__ == "__main__":
    main()
