"""Same profile, same bytes: in this process, and in a fresh one that loads the model from the hub's cache."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack import profile

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny

MODEL = "somebody/tiny-vit"
MEAN = [0.4, 0.5, 0.6]

# The two phases that `here` trains, without anything of the tests.
ELSEWHERE = """
import hashlib, json, sys
from fedsgt.stack import profile
profile.apply()
import numpy as np, torch
from fedsgt.config.sections import Model, Peft
from fedsgt.errors import InputError
from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.inputs import make_inputs
from fedsgt.stack.stack import Stack

backbone = load_backbone(sys.argv[1], "image", 5)
inputs = make_inputs(Model(backbone=sys.argv[1]), backbone)
contents = [bytes.fromhex(line) for line in sys.stdin.read().split()]
batch = inputs.batch([inputs.item(str(number), (content,)) for number, content in enumerate(contents)])
digests = {}
for kind in ("lora", "prefix"):
    stack = Stack(load_backbone(sys.argv[1], "image", 5), Peft(kind=kind, **json.loads(sys.argv[2])))
    modules = []
    for phase in range(2):
        stack.load(modules)
        opened = stack.open(stack.begin(phase, modules[-1] if modules else stack.initial_head(phase)))
        optimizer = torch.optim.SGD(opened.values(), lr=0.5)
        for _ in range(2):
            optimizer.zero_grad()
            logits = stack.logits(batch)
            torch.nn.functional.cross_entropy(logits, torch.arange(len(logits)) % 5).backward()
            optimizer.step()
        modules.append(stack.finish(stack.snapshot()))
    code = hashlib.sha256()
    for module in modules:
        for name in sorted(module):
            code.update(name.encode() + module[name].tobytes())
    digests[kind] = code.hexdigest()
try:
    load_backbone("somebody/not-cached", "image", 5)
    error = "none"
except InputError as caught:
    error = str(caught)
print(json.dumps({"digests": digests, "hash": backbone.hash, "mean": inputs.mean, "error": error,
                  "threads": torch.get_num_threads(), "profile": profile.describe("cpu")}))
"""


def digest(modules: list[Tensors]) -> str:
    code = hashlib.sha256()
    for module in modules:
        for name in sorted(module):
            code.update(name.encode() + module[name].tobytes())
    return code.hexdigest()


@pytest.fixture(scope="module")
def cached(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub cache that holds one model, as a download leaves it."""
    home = tmp_path_factory.mktemp("home")
    place = home / "hub" / f"models--{MODEL.replace('/', '--')}"
    snapshot = shutil.copytree(tiny.folders["vit"], place / "snapshots" / "0123abcd")
    (snapshot / "preprocessor_config.json").write_text(json.dumps({"image_mean": MEAN}))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0123abcd")
    return home


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    return [b"P5 8 8 255\n" + bytes((7 * number + cell) % 256 for cell in range(64)) for number in range(6)]


@pytest.fixture(scope="module")
def elsewhere(cached: Path, records: list[bytes]) -> dict[str, Any]:
    """Return what a fresh process without network prints."""
    unset = ("MKL_CBWR", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    outside = {name: value for name, value in os.environ.items() if name not in unset}
    settings = json.dumps({"rank": 2, "alpha": 3.0, "tokens": 3, "hidden": 8})
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, MODEL, settings],
        input="\n".join(record.hex() for record in records),
        env=outside | {"HF_HOME": str(cached), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kind", ["lora", "prefix"])
def test_a_fresh_process_trains_the_same_bits(
    tiny: Tiny, records: list[bytes], elsewhere: dict[str, Any], kind: str
) -> None:
    inputs = tiny.inputs("vit", mean=MEAN)
    batch = inputs.batch([inputs.item("r", (record,)) for record in records])
    stack = tiny.stack("vit", kind)
    modules: list[Tensors] = []
    for phase in range(2):
        modules.append(tiny.train(stack, modules, batch, seed=phase))
    assert elsewhere["digests"][kind] == digest(modules)


def test_a_cached_hub_model_is_the_folders_with_its_own_normalisation(
    tiny: Tiny, elsewhere: dict[str, Any]
) -> None:
    assert elsewhere["hash"] == tiny.untouched("vit").hash
    assert elsewhere["mean"] == MEAN


def test_a_hub_model_that_is_not_cached_is_one_line(elsewhere: dict[str, Any]) -> None:
    assert elsewhere["error"].startswith("model.backbone: 'somebody/not-cached' cannot be loaded for image")
    assert "\n" not in elsewhere["error"]


def test_a_process_under_the_profile_says_so(elsewhere: dict[str, Any]) -> None:
    assert elsewhere["threads"] == 1
    assert elsewhere["profile"] == profile.describe("cpu")
    for name in ("torch", "transformers", "numpy", "pillow"):
        assert elsewhere["profile"][name] == importlib.metadata.version(name)


def test_torch_loaded_otherwise_before_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    profile.apply()
    assert torch.are_deterministic_algorithms_enabled()
    monkeypatch.setenv("MKL_CBWR", "SOMETHING")
    with pytest.raises(InputError, match=r"engine.workers: 0 needs MKL_CBWR="):
        profile.apply()


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ("fpu avx2 avx512f", "AVX512,STRICT"),
        ("fpu avx2", "AVX2,STRICT"),
        ("fpu", "COMPATIBLE"),
        ("", "COMPATIBLE"),
    ],
)
def test_the_mode_follows_the_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: str, mode: str
) -> None:
    (tmp_path / "cpuinfo").write_text(f"model name\t: Some CPU\nflags\t\t: {flags}\nflags\t\t: other\n")
    monkeypatch.setattr(profile, "CPU_INFO", tmp_path / "cpuinfo")
    assert profile.environment()["MKL_CBWR"] == mode
    assert profile.machine()["cpu"] == "Some CPU"


def test_a_system_that_does_not_describe_its_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(profile, "CPU_INFO", tmp_path / "none")
    assert profile.environment()["MKL_CBWR"] == "COMPATIBLE"
    assert profile.machine()["cpu"]


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert profile.pick_device("auto") == profile.pick_device("cpu") == "cpu"
    with pytest.raises(InputError, match="'cuda' is not on this machine, which has 0 GPUs"):
        profile.pick_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [profile.pick_device(name) for name in ("auto", "cuda", "cuda:1")] == [
        "cuda:0",
        "cuda:0",
        "cuda:1",
    ]
    with pytest.raises(InputError, match="'cuda:2' is not on this machine, which has 2 GPUs"):
        profile.pick_device("cuda:2")
