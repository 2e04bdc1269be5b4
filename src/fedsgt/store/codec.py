"""Tensors to the bytes of a safetensors file and back, with one note in its header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from fedsgt.errors import InputError
from fedsgt.store.hashing import Tensors, canonical


def pack(tensors: Mapping[str, NDArray[Any]], note: str) -> bytes:
    """The file's bytes. safetensors writes memory as it lies, so the canonical form goes in."""
    return safetensors.numpy.save(canonical(tensors), {"note": note})


def unpack(data: bytes) -> Tensors:
    """The tensors, in arrays of their own."""
    try:
        return canonical(safetensors.numpy.load(data))
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"not a safetensors file of a module ({' '.join(str(error).split())})") from error


def read_note(data: bytes) -> str:
    """The note of a file that `unpack` could read."""
    length = int.from_bytes(data[:8], "little")
    note = json.loads(data[8 : 8 + length]).get("__metadata__", {}).get("note")
    if not isinstance(note, str):
        raise InputError("the safetensors file has no note; those of a store have one")
    return note
