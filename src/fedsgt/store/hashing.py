"""The identity of parameters: a hash of names, types, shapes and values, never of a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.files.encoding import frames

Tensors = dict[str, NDArray[Any]]
_DTYPES = ("float32", "float64")


def canonical(tensors: Mapping[str, NDArray[Any]]) -> Tensors:
    """The same values in one form: sorted by name, each little-endian and in C order."""
    if not tensors:
        raise InputError("there are no tensors; a module has at least one")
    for name, value in tensors.items():
        _check(name, value)
    return {name: _canonical(tensors[name]) for name in sorted(tensors)}


def tensor_hash(tensors: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of the canonical form; equal exactly when every name, type, shape and bit is."""
    code = hashlib.sha256(frames("fedsgt.tensors.1", len(tensors)))
    for name, value in canonical(tensors).items():
        # As long as they say: the values need no copy to be framed.
        code.update(frames(name, value.dtype.name, value.ndim, *value.shape, value.nbytes))
        code.update(value.data)
    return code.hexdigest()


def _check(name: str, value: NDArray[Any]) -> None:
    if not isinstance(name, str) or not name or name == "__metadata__":
        raise InputError(f"tensor name {name!r} is not allowed; it is a text, not empty and not __metadata__")
    if not isinstance(value, np.ndarray):
        raise InputError(f"tensor {name} is a {type(value).__name__}; allowed: a numpy array")
    if value.dtype.name not in _DTYPES:
        raise InputError(f"tensor {name} is of type {value.dtype}; allowed: {', '.join(_DTYPES)}")


def _canonical(value: NDArray[Any]) -> NDArray[Any]:
    return value.astype(value.dtype.newbyteorder("<"), order="C", subok=False, copy=False)
