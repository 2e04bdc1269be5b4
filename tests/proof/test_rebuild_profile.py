"""On a machine that rounds otherwise, nothing is comparable: no proof, and no accusation either."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from fedsgt.runs.folder import RunFolder
from fedsgt.stack import profile

pytestmark = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512",
    reason="this processor has no AVX-512, so a limit of AVX2 changes nothing",
)


def limited(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the instructions of another processor."""
    return subprocess.run(
        [sys.executable, "-m", "fedsgt", *arguments],
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_of_another_instruction_set_is_not_comparable(folder: RunFolder) -> None:
    folder.ledger.close()
    done = limited("verify", str(folder.path), "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    assert '"not comparable": 9' in done.stdout
    assert f"probe {profile.describe('cpu')['probe']} against " in done.stdout
    assert "instruction_limits none against ONEDNN_MAX_CPU_ISA=AVX2" in done.stdout


def test_a_training_is_not_continued_under_another_instruction_set(folder: RunFolder) -> None:
    folder.ledger.close()
    done = limited("train", str(folder.path / "run.toml"), "-o", str(folder.path))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "the execution profile changed (instruction_limits: none -> ONEDNN_MAX_CPU_ISA=AVX2" in done.stderr
