"""Checkpoint of a phase between two of its rounds, in one object, so that replacing it is one step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from fedsgt.errors import InputError
from fedsgt.files.encoding import frames
from fedsgt.files.tensors import Tensors, pack, read_note, tensor_hash, unpack
from fedsgt.store.manifest import Count, Participants
from fedsgt.words import counted, first_problem


@dataclass(frozen=True)
class Checkpoint:
    """Tensors after some finished rounds of a phase, and the clients that took part in each."""

    number: int
    """Number of finished rounds."""
    tensors: Tensors
    participants: Participants


class _Note(BaseModel):
    """Header of a checkpoint's file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    key: str
    number: Count
    participants: Participants
    sha256: str

    def seal(self) -> str:
        """Return a hash over the tensors' hash and all other fields: the finished module states them all."""
        # With spaces, unlike `canonical_json`: checkpoints of runs that were stopped are sealed so.
        participants = json.dumps(self.participants, sort_keys=True)
        return hashlib.sha256(
            frames("fedsgt.round.1", self.key, self.number, participants, self.sha256)
        ).hexdigest()


def pack_checkpoint(
    key: str, number: int, tensors: Mapping[str, NDArray[Any]], participants: Participants
) -> bytes:
    """Return the bytes of the checkpoint after `number` finished rounds."""
    if number < 1 or number != len(participants):
        raise InputError(
            f"module {key}: round {number} with participants of {counted(len(participants), 'round')}; one "
            "for each"
        )
    try:
        note = _Note(key=key, number=number, participants=participants, sha256=tensor_hash(tensors))
    except ValidationError as error:
        raise InputError(f"module {key}: {first_problem(error, 'checkpoint')}") from None
    return pack(tensors, f"{note.seal()} {note.model_dump_json()}")


def unpack_checkpoint(key: str, data: bytes) -> Checkpoint | None:
    """Return the checkpoint; None if these bytes are not exactly what was saved for this key."""
    try:
        tensors = unpack(data)
        seal, _, text = read_note(data).partition(" ")
        note = _Note.model_validate_json(text)
    except ValueError:
        # A torn checkpoint costs some rounds of training; an error would cost the whole phase.
        return None
    if (note.key, note.sha256, note.seal()) != (key, tensor_hash(tensors), seal):
        return None
    return Checkpoint(note.number, tensors, note.participants)
