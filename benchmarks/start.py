"""CPU seconds until a command has answered, beside those of torch and transformers in the same run.

User and system time of the process and its children, so that other work on the machine hardly shows. The
measured things take turns, so that whatever the machine does meanwhile hits all of them.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import fedsgt

FORWARD = """
import sys
import torch
from transformers import AutoModelForImageClassification
model = AutoModelForImageClassification.from_pretrained(sys.argv[1], num_labels=10).eval()
size = model.config.image_size
with torch.no_grad():
    model(pixel_values=torch.zeros(1, 3, size, size)).logits.softmax(dim=-1)
"""
TINY_VIT = Path(fedsgt.__file__).parent / "assets" / "tiny-vit"


def python(*arguments: str | Path) -> list[str]:
    return [sys.executable, *map(str, arguments)]


def command(*arguments: str | Path) -> list[str]:
    return python("-m", "fedsgt", *arguments)


def things(place: Path, run: Path) -> dict[str, tuple[list[str], int]]:
    """Return each thing to measure: its command line, and the exit code that it must have."""
    config = place / "my.toml"
    subprocess.run(command("init", config), check=True, stdout=subprocess.DEVNULL)
    return {
        "python -c 'import torch'": (python("-c", "import torch"), 0),
        "transformers: load the tiny ViT, one forward pass": (python("-c", FORWARD, TINY_VIT), 0),
        "import fedsgt": (python("-c", "import fedsgt"), 0),
        "fedsgt --help": (command("--help"), 0),
        "fedsgt train, a mistake in the configuration": (command("train", config, "-s", "peft.rnak=3"), 2),
        "fedsgt status RUN": (command("status", run), 0),
        "fedsgt predict RUN --test --limit 1": (command("predict", run, "--test", "--limit", "1"), 0),
    }


def cpu_seconds(line: Sequence[str], code: int) -> float:
    """Run the command, and return the CPU seconds of it and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != code:
        sys.exit(f"{' '.join(line)}: exit code {done.returncode}\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def train_demo(place: Path) -> Path:
    """Train the demo's run, without what the demo shows of it."""
    run, config = place / "run", place / "demo.toml"
    subprocess.run(command("init", config), check=True, stdout=subprocess.DEVNULL)
    subprocess.run(command("train", config, "-o", run), check=True, capture_output=True)
    return run


def measure(wanted: dict[str, tuple[list[str], int]], times: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in wanted}
    for turn in range(times + 1):
        for name, (line, code) in wanted.items():
            seconds = cpu_seconds(line, code)
            if turn:  # the first turn brings files into memory
                found[name].append(seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, help="a run on the bundled model (default: train the demo's)")
    parser.add_argument("--times", type=int, default=5)
    chosen = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise our own modules are compiled each time
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["FEDSGT_STATE"] = str(place / "state")  # marks on the same disk, not at home
        run = chosen.run or train_demo(place)
        found = measure(things(place, run), chosen.times)
    print(f"{'CPU seconds':50} {'best':>6} {'median':>7} {'of torch':>9}")
    torch = min(found["python -c 'import torch'"])
    for name, seconds in found.items():
        best, median = min(seconds), statistics.median(seconds)
        print(f"{name:50} {best:6.2f} {median:7.2f} {best / torch:9.2f}")


if __name__ == "__main__":
    main()
