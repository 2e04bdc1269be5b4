"""Make the small ViT that comes with the package, from the public part of the digits and nothing else.

Supervised: a trunk and a head learn the labels of the public part, under random distortions; the head is
thrown away. How to train was judged by `--folds`, which holds back some of the public part itself, so that no
record of a client, and none of the test part, had a say in the backbone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fedsgt.stack import profile

if __name__ == "__main__":
    profile.apply()  # before torch is imported: one thread, reproducible sums

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import ViTConfig, ViTModel

import fedsgt
from fedsgt.data import Columns, Dataset, load_dataset
from fedsgt.stack.inputs import ImageInputs

FOLDER = Path(fedsgt.__file__).parent / "assets" / "tiny-vit"
SIZE = 8
MEAN = STD = [0.5, 0.5, 0.5]
SEED = 0
STEPS, BATCH, LEARNING_RATE, WEIGHT_DECAY, SMOOTHING = 3000, 64, 2e-3, 0.05, 0.1
# Largest distortions of an image: turn (radians), scale, slant, shift (half images), light and noise.
TURN, SCALE, SLANT, SHIFT, LIGHT, NOISE = 0.25, 0.15, 0.2, 0.2, 0.2, 0.05


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write; the package's by default")
    parser.add_argument(
        "--folds", type=int, help="only judge the recipe, by so many folds of the public part"
    )
    options = parser.parse_args()
    images, labels = tensors(public_digits())
    if options.folds:
        judge(images, labels, options.folds)
        return
    trunk, _ = pretrain(images, labels, SEED)
    write(trunk, options.out)


def public_digits() -> Dataset:
    """Return the public part of the digits, the only one that this script reads; no client holds it."""
    return load_dataset("digits", Columns(inputs=("image",)), split="public")


def tensors(data: Dataset) -> tuple[Tensor, Tensor]:
    """Return images as the clients' pipeline makes them, and labels."""
    inputs = ImageInputs(SIZE, MEAN, STD, interpolate=False)
    batch = inputs.batch([inputs.item(record.id, record.content) for record in data.records])
    return batch["pixel_values"], torch.tensor(data.labels)


def judge(images: Tensor, labels: Tensor, folds: int) -> None:
    """Print the accuracy on each fold of a model trained on the others."""
    place = torch.arange(len(labels)) % folds
    for fold in range(folds):
        trunk, head = pretrain(images[place != fold], labels[place != fold], SEED + fold)
        with torch.no_grad():
            guessed = head(features(trunk, images[place == fold])).argmax(dim=1)
        print(f"fold {fold}: accuracy {(guessed == labels[place == fold]).float().mean():.4f}", flush=True)


def pretrain(images: Tensor, labels: Tensor, seed: int) -> tuple[ViTModel, nn.Linear]:
    """Return trunk and head after a fixed number of steps; no step is chosen by its accuracy."""
    torch.manual_seed(seed)
    rng = torch.Generator().manual_seed(seed + 1)
    trunk = ViTModel(architecture(), add_pooling_layer=False)
    head = nn.Linear(trunk.config.hidden_size, int(labels.max()) + 1)
    model = nn.ModuleList([trunk, head]).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=STEPS, pct_start=0.1)
    for _ in range(STEPS):
        chosen = torch.randint(len(labels), (BATCH,), generator=rng)
        logits = head(features(trunk, distort(images[chosen], rng)))
        optimizer.zero_grad()
        loss = functional.cross_entropy(logits, labels[chosen], label_smoothing=SMOOTHING)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()
    return trunk, head


def architecture() -> ViTConfig:
    return ViTConfig(
        image_size=SIZE,
        patch_size=2,
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=128,
    )


def features(trunk: ViTModel, images: Tensor) -> Tensor:
    """Return the head's input: the class token after the last norm, as in transformers' image classifier."""
    found: Tensor = trunk(images).last_hidden_state[:, 0]
    return found


def distort(images: Tensor, rng: torch.Generator) -> Tensor:
    """Return the images turned, scaled, slanted, shifted, lit and disturbed at random; they stay grey."""

    def spread(width: float) -> Tensor:
        return (torch.rand(len(images), generator=rng) * 2 - 1) * width

    angle, wide, high = spread(TURN), 1 + spread(SCALE), 1 + spread(SCALE)
    across = torch.stack([angle.cos() * wide, spread(SLANT) - angle.sin() * high, spread(SHIFT)], dim=1)
    down = torch.stack([angle.sin() * wide, angle.cos() * high, spread(SHIFT)], dim=1)
    grey = images[:, :1] * STD[0] + MEAN[0]  # black is 0 here, as beyond the edges
    grid = functional.affine_grid(torch.stack([across, down], dim=1), list(grey.shape), align_corners=False)
    moved = functional.grid_sample(grey, grid, align_corners=False)
    lit = moved * (1 + spread(LIGHT)).view(-1, 1, 1, 1)
    noisy = lit + NOISE * torch.randn(lit.shape, generator=rng)
    return ((noisy.clamp(0, 1) - MEAN[0]) / STD[0]).expand(-1, 3, -1, -1)


def write(trunk: ViTModel, folder: Path) -> None:
    """Write the trunk in half precision; the configuration says float32, so that it is loaded as such."""
    trunk.half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # written for the owner alone, and packaged as it is
    trunk.config.dtype = torch.float32
    trunk.config.save_pretrained(folder)
    preprocessing = {
        "image_processor_type": "ViTImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"height": SIZE, "width": SIZE},
        "resample": 2,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": MEAN,
        "image_std": STD,
    }
    text = json.dumps(preprocessing, indent=2) + "\n"
    (folder / "preprocessor_config.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
