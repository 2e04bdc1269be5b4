"""What a phase has reached between two of its rounds, in one object, so that replacing it is one step."""

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
from fedsgt.store.codec import pack, read_note, unpack
from fedsgt.store.hashing import Tensors, tensor_hash
from fedsgt.store.manifest import Count, Participants


@dataclass(frozen=True)
class Round:
    """Tensors after so many finished rounds, and who took part in each."""

    number: int
    tensors: Tensors
    participants: Participants


class _Note(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    key: str
    number: Count
    participants: Participants
    sha256: str

    def seal(self) -> str:
        """Over the tensors' hash and all else that is said: both go into the finished module."""
        participants = json.dumps(self.participants, sort_keys=True)
        return hashlib.sha256(
            frames("fedsgt.round.1", self.key, self.number, participants, self.sha256)
        ).hexdigest()


def pack_round(
    key: str, number: int, tensors: Mapping[str, NDArray[Any]], participants: Participants
) -> bytes:
    """The checkpoint's bytes."""
    if number < 1 or number != len(participants):
        raise InputError(
            f"module {key}: round {number} with participants of {len(participants)} rounds; one for each"
        )
    try:
        note = _Note(key=key, number=number, participants=participants, sha256=tensor_hash(tensors))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"module {key}: {where}: {error.errors()[0]['msg']}") from None
    return pack(tensors, f"{note.seal()} {note.model_dump_json()}")


def unpack_round(key: str, data: bytes) -> Round | None:
    """The checkpoint, or nothing if these bytes are not exactly what was saved for this key."""
    try:
        tensors = unpack(data)
        seal, _, text = read_note(data).partition(" ")
        note = _Note.model_validate_json(text)
    except ValueError:
        return None
    if (note.key, note.sha256, note.seal()) != (key, tensor_hash(tensors), seal):
        return None
    return Round(note.number, tensors, note.participants)
