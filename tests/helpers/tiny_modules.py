"""A module of a few numbers and its origin, and ways to damage its files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from fedsgt.files.tensors import Tensors
from fedsgt.store import Modules, Origin

KEY, OTHER = "a" * 64, "b" * 64
MANIFEST, TENSORS = f"modules/{KEY}/manifest.json", f"modules/{KEY}/module.safetensors"
ROUND = f"rounds/{KEY}.safetensors"


def origin(key: str = KEY) -> Origin:
    return Origin(
        key=key,
        parent=None,
        groups=[0],
        prefix=["c" * 64],
        config_hash="d" * 64,
        config={},
        backbone="e" * 64,
        rounds=1,
        participants=[{"north": 3}],
        seed=0,
        versions={},
        profile={},
        machine={},
        metrics={"loss": 0.5},
    )


def tensors(value: float = 1.0) -> Tensors:
    return {"head": np.full((2, 3), value, np.float32), "lora": np.arange(4, dtype=np.float32)}


def spoil(modules: Modules, name: str, change: Callable[[bytes], bytes]) -> None:
    modules.objects.write(name, change(modules.objects.read(name)))


def flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def draw_damage(modules: Modules, name: str, data: st.DataObject) -> None:
    size = len(modules.objects.read(name))
    if data.draw(st.booleans()):
        bit = data.draw(st.integers(0, 8 * size - 1))
        spoil(modules, name, lambda file: flip(file, bit))
    else:
        end = data.draw(st.integers(0, size - 1))
        spoil(modules, name, lambda file: file[:end])
