"""Frozen modules on a client's machine: kept as they were sent, and destroyed when the server says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedsgt.errors import InputError
from fedsgt.federation.client.module_cache import FolderModuleCache
from fedsgt.files.tensors import Tensors
from fedsgt.store import tensor_hash

ONE, TWO = "a" * 64, "b" * 64


def module(value: float) -> Tensors:
    return {"w": np.full(3, value, np.float32)}


HASHES = {ONE: tensor_hash(module(1)), TWO: tensor_hash(module(2))}


@pytest.fixture
def cache(tmp_path: Path) -> FolderModuleCache:
    made = FolderModuleCache(tmp_path / "state/modules")
    made.put({ONE: module(1), TWO: module(2)}, HASHES)
    return made


def test_modules_come_back_bit_for_bit(cache: FolderModuleCache) -> None:
    assert cache.get(ONE)["w"].tobytes() == module(1)["w"].tobytes()
    assert cache.lacks(HASHES) == []


def test_a_module_with_other_bytes_is_lacking(cache: FolderModuleCache) -> None:
    """The same key may stand for other bytes, after a training with other clients."""
    assert cache.lacks({ONE: HASHES[TWO], TWO: HASHES[TWO], "c" * 64: HASHES[ONE]}) == [ONE, "c" * 64]


def test_a_module_that_does_not_have_its_hash_is_not_written(cache: FolderModuleCache) -> None:
    for hashes in ({"c" * 64: HASHES[TWO]}, {}):
        with pytest.raises(InputError, match="module cccccccccccc did not arrive as it was sent"):
            cache.put({"c" * 64: module(1)}, hashes)
    assert not (cache.folder / f"{'c' * 64}.safetensors").exists()


@pytest.mark.parametrize("key", ["../../node", "a" * 63, "A" * 64, f"{'a' * 64}/x"])
def test_a_key_cannot_lead_elsewhere(cache: FolderModuleCache, key: str) -> None:
    with pytest.raises(InputError, match="is not allowed"):
        cache.put({key: module(1)}, {key: HASHES[ONE]})
    assert len(list(cache.folder.rglob("*"))) == 2


def test_damage_is_noticed_and_the_module_asked_for_again(cache: FolderModuleCache) -> None:
    path = cache.folder / f"{ONE}.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x55")
    with pytest.raises(InputError, match="module aaaaaaaaaaaa is damaged on this machine"):
        cache.get(ONE)
    assert cache.lacks(HASHES) == [ONE]


def test_all_but_the_kept_modules_are_destroyed(cache: FolderModuleCache) -> None:
    (cache.folder / ".0123456789abcdef.left").write_bytes(b"half a module of a killed writer")
    cache.keep([TWO])
    assert [path.name for path in cache.folder.iterdir()] == [f"{TWO}.safetensors"]
    assert cache.lacks(HASHES) == [ONE]
    cache.keep(())
    assert list(cache.folder.iterdir()) == []


def test_a_cache_that_was_never_used_has_nothing_to_destroy(tmp_path: Path) -> None:
    cache = FolderModuleCache(tmp_path / "none")
    cache.keep(())
    assert cache.lacks(HASHES) == [ONE, TWO]
    assert not cache.folder.exists()
