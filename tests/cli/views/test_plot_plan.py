"""The picture of a plan's score: drawn in each format, and the same file each time."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import shown

QUICK = ("--clients", "4", "--slices", "3", "--groups", "3", "--requests", "6")


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_plot_is_drawn(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"curves.{suffix}"
    assert str(path) in shown("plan", *QUICK, "--plot", str(path))
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") if suffix == "png" else b"Survival" in content or b"<svg" in content
    again = tmp_path / f"again.{suffix}"
    shown("plan", *QUICK, "--plot", str(again))
    assert again.read_bytes() == content
