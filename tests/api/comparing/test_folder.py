"""The folder of a comparison: one holder, whole lines, and no word of it that cannot be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedsgt.api.comparing.folder import RESULTS, SETTINGS, Compared, ComparisonFolder
from fedsgt.api.comparing.requests import Request
from fedsgt.api.results.comparison import Point
from fedsgt.config import load
from fedsgt.errors import InputError
from fedsgt.files.locks import Busy

STREAM = {0: [Request("a", ("secret-id",))]}
COMPARED = Compared.of({"fedsgt": load()}, "slices", 3, STREAM)
POINT = Point("fedsgt", 0, 0, 0.5, 0.4, 0.6, 9, 1.5, 6.0)


def begun(path: Path) -> ComparisonFolder:
    folder = ComparisonFolder(path)
    with folder.held():
        folder.begin(COMPARED)
    return folder


def test_points_are_read_again(tmp_path: Path) -> None:
    folder = begun(tmp_path / "out")
    points = [POINT, replace(POINT, request=1, accuracy=None, low=None, high=None, groups=(1, 2))]
    for point in points:
        folder.add(point)
    again = begun(tmp_path / "out")
    assert again.points_of("fedsgt", 0) == points
    assert again.points_of("fedsgt", 1) == []


def test_a_line_that_was_cut_short_does_not_count(tmp_path: Path) -> None:
    begun(tmp_path).add(POINT)
    results = tmp_path / RESULTS
    whole = results.read_bytes()
    results.write_bytes(whole + whole[:30])
    folder = begun(tmp_path)
    assert folder.points == [POINT]
    folder.add(replace(POINT, request=1))
    assert len(begun(tmp_path).points) == 2


def test_ids_of_records_are_not_kept(tmp_path: Path) -> None:
    begun(tmp_path)
    assert b"secret-id" not in (tmp_path / SETTINGS).read_bytes()


def test_other_requests_are_noticed() -> None:
    other = Compared.of({"fedsgt": load()}, "slices", 3, {0: [Request("a", ("other",))]})
    assert other.differences(COMPARED) == ["the records or the requests are others"]


def test_seeds_and_workers_are_no_other_settings() -> None:
    config = load(None, ["training.seed=4", "engine.workers=0"])
    assert Compared.of({"fedsgt": config}, "slices", 3, STREAM).differences(COMPARED) == []


def test_a_held_folder_is_busy(tmp_path: Path) -> None:
    with (
        ComparisonFolder(tmp_path).held(),
        pytest.raises(Busy, match="working on this comparison"),
        ComparisonFolder(tmp_path).held(),
    ):
        pass


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1, "systems": {}}'])
def test_damaged_settings_are_told(tmp_path: Path, text: str) -> None:
    begun(tmp_path)
    (tmp_path / SETTINGS).write_text(text)
    with pytest.raises(InputError, match="not what a comparison is of"):
        begun(tmp_path)


def test_damaged_results_and_newer_formats_are_told(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / RESULTS).write_text("nonsense\n")
    with pytest.raises(InputError, match="not the results of a comparison"):
        begun(tmp_path)
    text = (tmp_path / SETTINGS).read_text()
    (tmp_path / SETTINGS).write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(InputError, match="newer version"):
        begun(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="no folder"):
        begun(tmp_path / "file")
