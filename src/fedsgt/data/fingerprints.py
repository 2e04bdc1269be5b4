"""What the server knows of data: salted fingerprints that show neither ids nor content.

A slice's fingerprint is keyed by its client's secret salt, so hashing candidate records finds nothing.
It does show that a slice changed, which is what invalidation is for.
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
MIN_SALT_BYTES = 16
_HEX_SHA256 = re.compile(r"[0-9a-f]{64}")
# A missing label must not read as any label; no integer has this kind.
_NO_LABEL = frame(b"")


def slice_fingerprint(salt: bytes, client: str, index: int, records: Iterable[Record]) -> str:
    """HMAC-SHA256 under the salt of client, slice index and the slice's (id, digest, label), sorted by id."""
    check_salt(salt)
    if index < 0:
        raise InputError(f"slice index is {index}; allowed: a whole number of at least 0")
    ordered = sorted_records(records)
    # HMAC pads its key with zeros: salts that differ by trailing zeros are told apart by their length.
    header = frames("fedsgt.slice.1", len(salt), client, index, len(ordered))
    code = hmac.new(salt, header, hashlib.sha256)
    code.update(b"".join(map(_record_bytes, ordered)))
    return code.hexdigest()


def group_fingerprint(slice_fingerprints: Iterable[str]) -> str:
    """SHA-256 of a group's slice fingerprints, whose order does not matter; module keys are made of these."""
    ordered = sorted(_checked_hex(value) for value in slice_fingerprints)
    if not ordered:
        raise InputError(
            "a group fingerprint was asked of no slices; allowed: at least one slice fingerprint"
        )
    if len(set(ordered)) < len(ordered):
        raise InputError(f"{len(ordered)} slice fingerprints are not all different; allowed: each slice once")
    return hashlib.sha256(frames("fedsgt.group.1", len(ordered), *ordered)).hexdigest()


def record_hash(salt: bytes, client: str, record_id: str) -> str:
    """What a ledger may know of a deleted record: its id under the client's secret salt."""
    check_salt(salt)
    return hmac.new(salt, frames("fedsgt.record.1", client, record_id), hashlib.sha256).hexdigest()


def client_hash(salt: bytes, client: str) -> str:
    """What a ledger may know of who asked."""
    check_salt(salt)
    return hmac.new(salt, frames("fedsgt.client.1", client), hashlib.sha256).hexdigest()


def new_salt() -> bytes:
    """A fresh secret for one client; it must never leave that client."""
    return secrets.token_bytes(SALT_BYTES)


def derive_salt(seed: int | str, client: str) -> bytes:
    """A reproducible salt for simulations, where all clients run in one process.

    It protects nothing by itself: whoever knows or guesses the seed has every client's salt, and can then
    test guesses of ids and content against the fingerprints. Real clients use `new_salt`.
    """
    return hashlib.sha256(frames("fedsgt.salt.1", seed, client)).digest()


def check_salt(salt: bytes) -> None:
    """A salt that can be guessed hides nothing. The message does not show the salt."""
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
