"""The hash of tensors stands for their values, whatever their order in memory or in the dict."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors, pack, read_note, unpack
from fedsgt.store import tensor_hash

ARRAYS: st.SearchStrategy[NDArray[Any]] = arrays.arrays(
    st.sampled_from([np.dtype(np.float32), np.dtype(np.float64)]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
NAMES = st.text(min_size=1, max_size=4).filter(lambda name: name != "__metadata__")
TENSORS = st.dictionaries(NAMES, ARRAYS, min_size=1, max_size=4)


def bits(tensors: Tensors) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (value.dtype.name, value.shape, value.tobytes()) for name, value in tensors.items()}


def test_the_hash_never_changes_between_versions() -> None:
    tensors = {
        "b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a": np.array(-0.0),
        "c": np.zeros((0, 2), np.float32),
    }
    assert tensor_hash(tensors) == "3511d45c027c856d80c0ef5ab13936c0dde5ea07ef0460fa93b759dae08aeef0"


@given(TENSORS, TENSORS)
def test_equal_exactly_for_equal_names_types_shapes_and_bits(first: Tensors, second: Tensors) -> None:
    assert (tensor_hash(first) == tensor_hash(second)) == (bits(first) == bits(second))


@given(TENSORS, st.randoms(use_true_random=False))
def test_neither_dict_order_nor_memory_layout_matter(tensors: Tensors, random: Any) -> None:
    names = list(tensors)
    random.shuffle(names)
    expected = tensor_hash(tensors)
    assert tensor_hash({name: np.asarray(tensors[name], order="F") for name in names}) == expected
    swapped = {name: tensors[name].astype(tensors[name].dtype.newbyteorder(">")) for name in names}
    assert tensor_hash(swapped) == expected
    spread = {name: np.stack([tensors[name], tensors[name]], axis=-1)[..., 1] for name in names}
    assert tensor_hash(spread) == expected


@pytest.mark.parametrize(
    "other",
    [
        {"w": np.array([0.0, 2.0], np.float32)},
        {"w": np.array([-0.0, 1.0], np.float32)},
        {"w": np.array([0.0, 1.0], np.float64)},
        {"w": np.array([[0.0, 1.0]], np.float32)},
        {"w": np.array([[0.0], [1.0]], np.float32)},
        {"v": np.array([0.0, 1.0], np.float32)},
        {"w": np.array([0.0], np.float32), "w2": np.array([1.0], np.float32)},
        {"w": np.array([0.0, 1.0], np.float32), "x": np.zeros(0, np.float32)},
    ],
)
def test_name_type_shape_value_and_sign_of_zero_count(other: Tensors) -> None:
    assert tensor_hash(other) != tensor_hash({"w": np.array([0.0, 1.0], np.float32)})


def test_kinds_of_nan_are_told_apart() -> None:
    quiet, other = (np.array([number], "<u4").view("<f4") for number in (0x7FC00000, 0x7FC00001))
    assert tensor_hash({"w": quiet}) != tensor_hash({"w": other})


@given(TENSORS)
def test_a_file_gives_back_every_bit_in_arrays_of_its_own(tensors: Tensors) -> None:
    back = unpack(pack({name: np.asarray(value, order="F") for name, value in tensors.items()}, ""))
    assert bits(back) == bits(tensors)
    assert all(value.flags.writeable and value.flags.c_contiguous for value in back.values())


def test_a_file_with_a_note_is_the_same_every_time() -> None:
    tensors = {name: np.zeros(3, np.float32) for name in "cab"}
    files = {hashlib.sha256(pack(tensors, "note of 日")).hexdigest() for _ in range(20)}
    assert len(files) == 1
    assert read_note(pack(tensors, "note of 日")) == "note of 日"


def test_a_file_without_a_note_says_so() -> None:
    with pytest.raises(InputError, match="has no note"):
        read_note(safetensors.numpy.save({"w": np.zeros(1)}))


@pytest.mark.parametrize(
    ("tensors", "problem"),
    [
        ({}, "no tensors"),
        ({"w": np.array(["a"], object)}, "tensor w is of type object; allowed: float32, float64"),
        ({"w": np.arange(3, dtype=np.int32)}, "of type int32"),
        ({"w": np.zeros(3, np.float16)}, "of type float16"),
        ({"w": np.zeros(3, np.complex64)}, "of type complex64"),
        ({"w": np.zeros(3, "f4,f4")}, "of type"),
        ({"w": [1.0]}, "tensor w is a list"),
        ({"w": np.float32(1)}, "tensor w is a float32; allowed: a numpy array"),
        ({"": np.zeros(3)}, "name '' is not allowed"),
        ({3: np.zeros(3)}, "name 3 is not allowed"),
        ({"__metadata__": np.zeros(3)}, "name '__metadata__' is not allowed"),
        ({"\ud800": np.zeros(3)}, "not valid Unicode"),
    ],
)
def test_what_is_no_module_is_refused(tensors: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        tensor_hash(tensors)
