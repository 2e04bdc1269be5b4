"""The picture of a comparison: lines end where the service ends, and no setting of matplotlib is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.lines import Line2D

from fedsgt.api.results.comparison import Comparison, Point
from fedsgt.errors import InputError


def found(*curves: tuple[str, list[float | None]], seeds: int = 1) -> Comparison:
    points = [
        Point(name, seed, number, value, value, value, 1, 0.0, 0.0)
        for name, curve in curves
        for seed in range(seeds)
        for number, value in enumerate(curve)
    ]
    names = tuple(name for name, _ in curves)
    return Comparison(names, tuple(range(seeds)), "slices", len(curves[0][1]) - 1, 0.1, tuple(points))


BOTH = found(("ours", [0.9, 0.8, 0.7]), ("theirs", [0.9, None, None]))


def places(line: Line2D) -> tuple[list[float], list[float]]:
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def test_lines_and_their_ends() -> None:
    axes = BOTH.plot().axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert places(lines["ours"]) == ([0, 1, 2], [0.9, 0.8, 0.7])
    assert places(lines["theirs (ends at request 1)"]) == ([0], [0.9])
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    assert [places(one) for one in crosses] == [([1], [0.1])]


def test_a_system_that_most_seeds_lose() -> None:
    three = found(("a", [0.9, 0.8]), seeds=3)
    points = [replace(one, accuracy=None) if one.request and one.seed else one for one in three.points]
    labels = [line.get_label() for line in replace(three, points=tuple(points)).plot().axes[0].lines]
    assert "a (most seeds end by request 1)" in labels


def test_a_system_that_never_served() -> None:
    labels = [line.get_label() for line in found(("a", [None, None])).plot().axes[0].lines]
    assert "a (never served)" in labels


@pytest.mark.parametrize("name", ["a.svg", "a.png", "a.pdf"])
def test_it_is_written(tmp_path: Path, name: str) -> None:
    BOTH.plot(tmp_path / name)
    first = (tmp_path / name).read_bytes()
    assert len(first) > 2000
    if not name.endswith("pdf"):
        BOTH.plot(str(tmp_path / name))
        assert (tmp_path / name).read_bytes() == first  # equal pictures are equal files


def test_wrong_names_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no picture's name"):
        BOTH.plot(tmp_path / "a.doc")
    with pytest.raises(InputError, match="cannot be written"):
        BOTH.plot(tmp_path / "none" / "a.png")


def test_a_notebook_shows_it_and_nothing_global_is_changed() -> None:
    before = dict(mpl.rcParams)
    assert BOTH.plot()._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert dict(mpl.rcParams) == before
