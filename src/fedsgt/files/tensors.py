"""Tensors as bytes: their hash, which is a module's identity, and the safetensors file that holds them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.words import one_line

Tensors: TypeAlias = dict[str, NDArray[Any]]
"""Parameters by name: a module, a head, or the state that a client trains."""

METADATA = "__metadata__"
"""Key of the note in the header of a safetensors file."""
_DTYPES = ("float32", "float64", "int64")


def canonical_tensors(tensors: Mapping[str, NDArray[Any]]) -> Tensors:
    """Return the same values in one form: sorted by name, each little-endian and in C order."""
    if not tensors:
        raise InputError("there are no tensors; a module has at least one")
    for name, value in tensors.items():
        _check(name, value)
    # No copy is made if the form is right already: a model's tensors may be most of the memory.
    return {
        name: tensors[name].astype(tensors[name].dtype.newbyteorder("<"), order="C", subok=False, copy=False)
        for name in sorted(tensors)
    }


def tensor_hash(tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of the canonical form; equal exactly if all names, types, shapes and bits are."""
    code = hashlib.sha256(frames("fedsgt.tensors.1", len(tensors)))
    for name, value in canonical_tensors(tensors).items():
        # The number of bytes goes first, as in a frame, so that the values need not be copied into one.
        code.update(frames(name, value.dtype.name, value.ndim, *value.shape, value.nbytes))
        code.update(value.data)
    return code.hexdigest()


def pack(tensors: Mapping[str, NDArray[Any]], note: str) -> bytes:
    """Return the bytes of a safetensors file with these tensors, and the note in its header."""
    # safetensors writes memory as it lies, so only the canonical form gives the same bytes every time.
    return safetensors.numpy.save(canonical_tensors(tensors), {"note": note})


def unpack(data: bytes) -> Tensors:
    """Return the tensors of a safetensors file, in canonical form."""
    try:
        return canonical_tensors(safetensors.numpy.load(data))
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"not a safetensors file of a module ({one_line(error)})") from error


def read_note(data: bytes) -> str:
    """Return the note in the header of a file that `unpack` could read."""
    # The header is JSON after its length in 8 bytes; safetensors reads metadata from named files only.
    length = int.from_bytes(data[:8], "little")
    note = json.loads(data[8 : 8 + length]).get(METADATA, {}).get("note")
    if not isinstance(note, str):
        raise InputError("the safetensors file has no note; those of a store have one")
    return note


def told_size(header: bytes) -> int:
    """Return the size of a safetensors file, as its header with the length before it says."""
    entries = json.loads(header[8:]).items()
    return len(header) + max(
        (told["data_offsets"][1] for name, told in entries if name != METADATA), default=0
    )


def _check(name: str, value: NDArray[Any]) -> None:
    # safetensors keeps the note under __metadata__, where no tensor can be.
    if not isinstance(name, str) or not name or name == METADATA:
        raise InputError(f"tensor name {name!r} is not allowed; it is a text, not empty and not __metadata__")
    if not isinstance(value, np.ndarray):
        raise InputError(f"tensor {name} is a {type(value).__name__}; allowed: a numpy array")
    if value.dtype.name not in _DTYPES:
        raise InputError(f"tensor {name} is of type {value.dtype}; allowed: {', '.join(_DTYPES)}")
