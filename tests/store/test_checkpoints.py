"""A checkpoint is exactly what was saved last for its module, or counts as none."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_modules import KEY, OTHER, ROUND, TENSORS, draw_damage, origin, tensors

from fedsgt.errors import InputError
from fedsgt.store import (
    Modules,
    open_objects,
    tensor_hash,
)
from fedsgt.store.checkpoints import pack_checkpoint


def test_a_checkpoint_is_the_last_saved(modules: Modules) -> None:
    assert modules.load_checkpoint(KEY) is None
    modules.save_checkpoint(KEY, 1, tensors(1), [{"süd": 3}])
    modules.save_checkpoint(KEY, 2, tensors(2), [{"süd": 3}, {}])
    found = modules.load_checkpoint(KEY)
    assert found is not None
    assert (found.number, found.participants) == (2, [{"süd": 3}, {}])
    assert tensor_hash(found.tensors) == tensor_hash(tensors(2))
    assert modules.objects.names() == [ROUND]
    assert modules.load_checkpoint(OTHER) is None
    for _ in range(2):
        modules.discard_checkpoint(KEY)
        assert modules.load_checkpoint(KEY) is None
    assert modules.objects.names() == []


@pytest.mark.parametrize(
    ("number", "participants", "problem"),
    [
        (0, [], "round 0"),
        (2, [{}], "round 2 with participants of 1 round"),
        (1, [{"north": -1}], r"participants\.0\.north"),
        (1, [{"north": 1.5}], r"participants\.0\.north"),
        (True, [{}], "number"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    modules: Modules, number: Any, participants: Any, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        modules.save_checkpoint(KEY, number, tensors(), participants)


def test_a_checkpoint_of_another_module_counts_as_none(modules: Modules) -> None:
    modules.save_checkpoint(OTHER, 1, tensors(), [{}])
    modules.objects.write(ROUND, modules.objects.read(ROUND.replace(KEY, OTHER)))
    assert modules.load_checkpoint(KEY) is None


@pytest.mark.parametrize("change", [b"", b"garbage", b"{}" * 50])
def test_garbage_is_no_checkpoint(modules: Modules, change: bytes) -> None:
    modules.objects.write(ROUND, change)
    assert modules.load_checkpoint(KEY) is None


def test_a_module_is_no_checkpoint(modules: Modules) -> None:
    modules.put(origin(), tensors())
    modules.objects.write(ROUND, modules.objects.read(TENSORS))
    assert modules.load_checkpoint(KEY) is None


@given(st.data())
def test_a_checkpoint_with_a_flipped_bit_or_cut_counts_as_none(data: st.DataObject) -> None:
    modules = Modules(open_objects("memory://rounds"))
    modules.save_checkpoint(KEY, 1, tensors(), [{"north": 3}])
    draw_damage(modules, ROUND, data)
    assert modules.load_checkpoint(KEY) is None


def test_the_bytes_of_a_checkpoint_never_change_between_versions() -> None:
    """Computed by version 0.1.0: a run that it left unfinished goes on where it was."""
    data = pack_checkpoint("a" * 64, 2, {"w": np.arange(3, dtype=np.float32)}, [{"süd": 3, "a": 1}, {}])
    expected = "b96ad2941e2911efc03b83a695a1ee239a23998dd5a47df0668ef7f43ba16140"
    assert hashlib.sha256(data).hexdigest() == expected
