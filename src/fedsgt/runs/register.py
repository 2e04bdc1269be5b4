"""Registers: the ids that a run learnt from, client by client, as hashes under a random salt (definition 12).

A deletion looks ids up here and not in the source: a record that has left its file can still be deleted, and
rows that appear in the file later are not part of the run. A register is written once and never changed; the
run's description has its hash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedsgt.data import Client, new_salt, record_hash
from fedsgt.errors import InputError
from fedsgt.files.durable import make_folder, read_limited, sync_folder
from fedsgt.files.encoding import parse_json
from fedsgt.files.formats import check_format
from fedsgt.runs.artefacts import REGISTERS
from fedsgt.runs.description import Description
from fedsgt.words import first_problem

# 128 bits: among a billion ids two share a hash with a chance of one in 10^20.
HASH_DIGITS = 32
# Thirty million records of one client fit.
MAX_BYTES = 2**30


class Register(BaseModel):
    """Ids that one client registered, as hashes under a salt that is derived from nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal[1] = 1
    client: str
    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    ids: Annotated[str, Field(pattern=r"^[0-9a-f]*$")]
    """Sorted hashes, one behind the other: a list of a million texts would be slow to read."""

    @classmethod
    def of(cls, client: str, ids: Iterable[str]) -> Register:
        """Register these ids under a new salt."""
        salt = new_salt()
        return cls(client=client, salt=salt.hex(), ids="".join(sorted(_hash(salt, client, i) for i in ids)))

    def __contains__(self, record_id: object) -> bool:
        """Whether the client registered a record of this id."""
        return isinstance(record_id, str) and self._hash(record_id) in self._hashes

    def __len__(self) -> int:
        return len(self.ids) // HASH_DIGITS

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return (self.model_dump_json(indent=1) + "\n").encode()

    def _hash(self, record_id: str) -> str:
        return _hash(bytes.fromhex(self.salt), self.client, record_id)

    @cached_property
    def _hashes(self) -> frozenset[str]:
        starts = range(0, len(self.ids), HASH_DIGITS)
        return frozenset(self.ids[start : start + HASH_DIGITS] for start in starts)


def _hash(salt: bytes, client: str, record_id: str) -> str:
    return record_hash(salt, client, record_id)[:HASH_DIGITS]


class Registers:
    """The registers of a run, read when they are asked for."""

    def __init__(self, run: Path, description: Description) -> None:
        self.run, self.description = run, description
        self._read: dict[int, Register] = {}

    def of(self, number: int) -> Register | None:
        """Return the register of the client of this number, checked against the run's description.

        None for a client that keeps its register on its own machine, and for one of an older run whose
        records could not be read when the run was first opened by this version.
        """
        expected = self.description.clients[number].register_hash
        if expected is None:
            return None
        if number not in self._read:
            self._read[number] = _read(register_path(self.run, number), expected)
        return self._read[number]

    def cover(self, numbers: Iterable[int]) -> bool:
        """Whether all clients of these numbers have a register here."""
        return all(self.description.clients[number].register_hash is not None for number in numbers)


def new_registers(clients: Sequence[Client]) -> dict[int, Register]:
    """Return a register of each client's records, by the client's number."""
    return {
        number: Register.of(client.name, (record.id for record in client.records))
        for number, client in enumerate(clients)
    }


def with_registers(run: Path, description: Description, registers: Mapping[int, Register]) -> Description:
    """Write the registers into the run's folder, and return the description with their hashes."""
    if not registers:
        return description
    make_folder(run / REGISTERS, 0o700)
    hashes = {
        number: _write_register(register_path(run, number), register.to_bytes())
        for number, register in registers.items()
    }
    sync_folder(run / REGISTERS)
    clients = [
        client.model_copy(update={"register_hash": hashes[number]}) if number in hashes else client
        for number, client in enumerate(description.clients)
    ]
    return description.model_copy(update={"clients": clients})


def register_path(run: Path, number: int) -> Path:
    """Return the path of the register of the client of this number."""
    return run / REGISTERS / f"{number}.json"


def _write_register(path: Path, data: bytes) -> str:
    """Write a register that only its owner can read, and return its hash; the caller syncs the folder.

    It counts once a description names it, so nobody reads one that is half written. A file that no
    description names is what a stopped writer left, and is replaced.
    """
    path.unlink(missing_ok=True)
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def _read(path: Path, expected: str) -> Register:
    data = read_limited(path, MAX_BYTES)
    if hashlib.sha256(data).hexdigest() != expected:
        raise InputError(
            f"{path}: not the register that this run was made with; restore it from a backup, or delete "
            "whole slices or clients instead of single records"
        )
    check_format(parse_json(data, path), Register.model_fields["format"].default, path)
    try:
        return Register.model_validate_json(data)
    except ValidationError as error:
        raise InputError(f"{path}: not a register ({first_problem(error, 'the whole')})") from None
