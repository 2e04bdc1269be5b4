"""The probe is the same in every process of a machine, and another where kernels round differently."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from fedsgt.errors import InputError
from fedsgt.stack import profile
from fedsgt.stack.probe import compute

FRESH = """
from fedsgt.stack import profile
profile.apply()
print(profile.describe("cpu")["probe"])
"""
# Another number of threads and type, no gradients, memory in use, kernels chosen and generators drawn from.
WORN = """
import os
from fedsgt.stack import profile
os.environ.update(profile.environment())
import torch
torch.set_num_threads(2)
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.manual_seed(5)
kept = [torch.randn(odd, dtype=torch.float32) for odd in range(1, 400, 3)]
for size in (3, 17, 64, 130):
    image = torch.randn(2, 3, 32, 32, dtype=torch.float32)
    torch.nn.functional.conv2d(image, torch.randn(size, 3, 8, 8, dtype=torch.float32), stride=8)
    torch.randn(size, size) @ torch.randn(size, size)
with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
    print(profile.describe("cpu")["probe"])
assert torch.get_num_threads() == 2 and not torch.are_deterministic_algorithms_enabled()
"""
LATE = """
import torch
from fedsgt.stack import profile
print(profile.describe("cpu")["probe"])
"""
WORKER = """
import multiprocessing, os
from fedsgt.stack import profile

def work(pipe):
    profile.apply()
    pipe.send(profile.describe("cpu")["probe"])

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    os.environ.update(profile.environment())
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs,))
    process.start()
    print(ours.recv())
    process.join()
"""


def start(code: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    known = (*profile.environment(), *profile.LIMITS)
    outside = {name: value for name, value in os.environ.items() if name not in known}
    return subprocess.Popen(
        [sys.executable, "-c", code], env={**outside, **(variables or {})}, stdout=subprocess.PIPE, text=True
    )


def result(child: subprocess.Popen[str]) -> str:
    out, _ = child.communicate()
    assert child.returncode == 0
    return out.strip()


def test_every_process_has_the_same(tmp_path: Path) -> None:
    here = profile.describe("cpu")["probe"]
    assert here == compute("cpu") == compute("cpu")
    assert len(here) == 16
    # A worker's module must be a file; all run at the same time, so that the machine is busy.
    (tmp_path / "worker.py").write_text(WORKER)
    file = f"import runpy; runpy.run_path({str(tmp_path)!r} + '/worker.py', run_name='__main__')"
    children = [start(code) for code in (FRESH, FRESH, WORN, LATE, file)]
    assert [result(child) for child in children] == [here] * len(children)


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_another_instruction_set_shows(name: str) -> None:
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("this processor has no AVX-512, so a limit of AVX2 changes nothing")
    found = result(start(FRESH.replace('["probe"]', ""), {name: "AVX2"}))
    ours = profile.describe("cpu")
    assert ours["instruction_limits"] == "none"
    assert f"'instruction_limits': '{name}=AVX2'" in found
    assert ours["probe"] not in found


def test_another_order_of_a_sum_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """If any of these kernels rounded otherwise, the result would be another."""
    ours = compute("cpu")
    functional = torch.nn.functional
    for name in ("conv2d", "linear", "layer_norm", "gelu", "embedding", "scaled_dot_product_attention"):
        real = getattr(functional, name)
        with monkeypatch.context() as patch:
            patch.setattr(functional, name, lambda *a, real=real, **k: real(*a, **k) * (1 + 2**-23))
            assert compute("cpu") != ours
    assert compute("cpu") == ours


def test_a_probe_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MKL_CBWR", "SOMETHING")
    with pytest.raises(InputError, match=r"model\.device: no-device cannot be probed .*Invalid device"):
        profile._probe("no-device")
