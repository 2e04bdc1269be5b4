"""Cached outputs are read back as they were written, or not at all; no error of the disk stops a training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedsgt.engine.cache import ActivationCache
from fedsgt.stack.inputs import Item


def items(*lengths: int) -> list[Item]:
    rng = np.random.default_rng(sum(lengths))
    return [{"hidden": rng.random((length, 3), dtype=np.float32)} for length in lengths]


def same(one: list[Item] | None, other: list[Item]) -> bool:
    return one is not None and all(
        np.array_equal(a["hidden"], b["hidden"]) and a["hidden"].dtype == b["hidden"].dtype
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("lengths", [(1,), (4, 4, 4), (5, 1, 7, 2)])
def test_records_come_back_at_their_own_length(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    cache = ActivationCache(tmp_path / "cache", "recipe")
    assert cache.get("print") is None
    cache.put("print", items(*lengths))
    assert same(ActivationCache(tmp_path / "cache", "recipe").get("print"), items(*lengths))
    assert [path.suffix for path in (tmp_path / "cache" / "print").iterdir()] == [".activations"]


def test_another_slice_or_recipe_finds_nothing(tmp_path: Path) -> None:
    ActivationCache(tmp_path, "recipe").put("print", items(3))
    assert ActivationCache(tmp_path, "recipe").get("other") is None
    assert ActivationCache(tmp_path, "other").get("print") is None


def test_every_damage_is_the_same_as_none(tmp_path: Path) -> None:
    cache = ActivationCache(tmp_path, "recipe")
    cache.put("print", items(2, 3))
    (file,) = (tmp_path / "print").iterdir()
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert cache.get("print") is None
        file.write_bytes(whole[:place])
        assert cache.get("print") is None
    cache.put("print", items(2, 3))
    assert file.read_bytes() == whole


def test_a_folder_that_cannot_be_used_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = ActivationCache(tmp_path / "file", "recipe")
    cache.put("print", items(3))
    assert cache.get("print") is None

    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    ActivationCache(tmp_path / "full", "recipe").put("print", items(3))
    assert list((tmp_path / "full" / "print").iterdir()) == []
