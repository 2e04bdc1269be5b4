"""Salted fingerprints: all that the server knows of the data. They show neither ids nor content.

A slice's fingerprint is keyed by its client's secret salt, so hashing candidate records finds nothing.
It does show that a slice changed, and that is how modules trained on the slice are known to be invalid.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable

from fedsgt.data.records import Record, sorted_records
from fedsgt.errors import InputError
from fedsgt.files.encoding import frame, frames

SALT_BYTES = 32
# 128 bits are beyond guessing; salts of that length are taken, new ones are longer.
MIN_SALT_BYTES = 16
_HEX_SHA256 = re.compile(r"[0-9a-f]{64}")
# Stands for a missing label. It is a frame of bytes and labels are frames of integers, so it equals none.
_NO_LABEL = frame(b"")


def slice_fingerprint(salt: bytes, client: str, index: int, records: Iterable[Record]) -> str:
    """Return the HMAC-SHA256, keyed by the salt, of client, slice index and the records sorted by id.

    A record counts with its id, the digest of its content and its label.
    """
    check_salt(salt)
    if index < 0:
        raise InputError(f"slice index is {index}; allowed: a whole number of at least 0")
    ordered = sorted_records(records)
    # HMAC pads its key with zeros; the salt's length tells salts apart that differ by trailing zeros.
    header = frames("fedsgt.slice.1", len(salt), client, index, len(ordered))
    code = hmac.new(salt, header, hashlib.sha256)
    code.update(b"".join(map(_record_bytes, ordered)))
    return code.hexdigest()


def group_fingerprint(slice_fingerprints: Iterable[str]) -> str:
    """Return the SHA-256 of a group's slice fingerprints in any order; module keys are made of these."""
    ordered = sorted(_checked_hex(value) for value in slice_fingerprints)
    if not ordered:
        raise InputError(
            "a group fingerprint was asked of no slices; allowed: at least one slice fingerprint"
        )
    # A slice counted twice would be in two places of the grouping.
    if len(set(ordered)) < len(ordered):
        raise InputError(f"{len(ordered)} slice fingerprints are not all different; allowed: each slice once")
    return hashlib.sha256(frames("fedsgt.group.1", len(ordered), *ordered)).hexdigest()


def record_hash(salt: bytes, client: str, record_id: str) -> str:
    """Return the hash by which a ledger knows a deleted record: its id under the client's secret salt."""
    check_salt(salt)
    return hmac.new(salt, frames("fedsgt.record.1", client, record_id), hashlib.sha256).hexdigest()


def in_sample(salt: bytes, record_id: str, share: float) -> bool:
    """Return whether a record belongs to the sample that statistics are made of.

    It depends on the client's salt and the record's own id, and on no other record.
    """
    code = hmac.new(salt, frames("fedsgt.heads.1", record_id), hashlib.sha256).digest()
    return int.from_bytes(code[:8]) < share * 2**64


def client_hash(salt: bytes, client: str) -> str:
    """Return the hash by which a ledger knows the client that asked for a deletion."""
    check_salt(salt)
    return hmac.new(salt, frames("fedsgt.client.1", client), hashlib.sha256).hexdigest()


def new_salt() -> bytes:
    """Return a fresh secret for one client; it must never leave that client."""
    return secrets.token_bytes(SALT_BYTES)


def derive_salt(seed: int | str, client: str) -> bytes:
    """Return a reproducible salt for simulations, where all clients run in one process.

    It protects nothing by itself: anyone who knows or guesses the seed has every client's salt, and can then
    test guesses of ids and content against the fingerprints. Real clients use `new_salt`.
    """
    return hashlib.sha256(frames("fedsgt.salt.1", seed, client)).digest()


def check_salt(salt: bytes) -> None:
    """Check that the salt is too long to be guessed; a salt that can be guessed hides nothing."""
    # The message says how long the salt is and does not show it.
    if not isinstance(salt, bytes) or len(salt) < MIN_SALT_BYTES:
        given = f"{len(salt)} bytes long" if isinstance(salt, bytes) else f"of type {type(salt).__name__}"
        raise InputError(f"salt is {given}; allowed: bytes, at least {MIN_SALT_BYTES} of them")


def _record_bytes(record: Record) -> bytes:
    label = _NO_LABEL if record.label is None else frame(record.label)
    return frame(record.id) + frame(record.digest) + label


def _checked_hex(value: str) -> str:
    if not isinstance(value, str) or not _HEX_SHA256.fullmatch(value):
        raise InputError(
            f"slice fingerprint {value!r} is not allowed; it is 64 lower-case hexadecimal digits"
        )
    return value
