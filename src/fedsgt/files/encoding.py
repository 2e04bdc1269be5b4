"""Encodings that can be read in one way only: all hashes and signatures are taken over them."""

import hashlib
import json
from typing import Any

import rfc8785

from fedsgt.errors import InputError

# Largest whole number up to which all JSON readers agree: many of them read numbers as doubles.
MAX_INTEGER = 2**53 - 1


def text_bytes(text: str) -> bytes:
    """Return the text in UTF-8; half a surrogate pair is an error, since UTF-8 cannot hold it."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"text {text!r} is not valid Unicode; allowed: anything that UTF-8 can hold"
        ) from error


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold the text: not if it has half of a surrogate pair."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def frame(part: bytes | str | int) -> bytes:
    """Return the part's type, length and bytes; frames joined together never read as other frames."""
    if isinstance(part, str):
        kind, body = b"s", text_bytes(part)
    elif isinstance(part, bytes):
        kind, body = b"b", part
    elif isinstance(part, int):
        # One bit more than the number has, for the sign.
        kind, body = b"i", part.to_bytes(part.bit_length() // 8 + 1, "big", signed=True)
    else:
        raise InputError(f"cannot hash {part!r} of type {type(part).__name__}; allowed: bytes, str, int")
    # The type goes first: 1, "1" and b"1" are different parts.
    return kind + len(body).to_bytes(8, "big") + body


def frames(*parts: bytes | str | int) -> bytes:
    """Return the frames of these parts, one after another."""
    return b"".join(map(frame, parts))


def seed_of(purpose: str, *parts: int | str) -> int:
    """Return a seed of 128 bits, derived from its purpose and from all that it may depend on.

    Every random choice has such a seed of its own; there is no global generator.
    """
    digest = hashlib.sha256(frames("fedsgt.seed.1", purpose, *parts)).digest()
    return int.from_bytes(digest[:16], "big")


def canonical_json(value: Any) -> str:
    """Return compact ASCII JSON with sorted keys, the form of hashed settings and of ledger entries.

    NaN, infinities and types that JSON does not have raise `ValueError` or `TypeError`. Keys of modules and
    hashes of ledgers depend on every byte of this form, so it never changes.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def signed_json(value: Any) -> bytes:
    """Return the canonical form of RFC 8785, over which signatures are made.

    Unlike `canonical_json` it is a standard: people check a certificate with tools that are not ours.
    """
    try:
        return rfc8785.dumps(value)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"the text has no canonical form (RFC 8785): {reason}") from None


def parse_json(data: bytes, where: object) -> Any:
    """Read JSON that all readers read alike: keys once, numbers whole and within a double, valid Unicode."""
    try:
        return json.loads(
            data.decode(),
            object_pairs_hook=_each_key_once,
            parse_int=_whole_number,
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
        )
    except UnicodeDecodeError:
        raise InputError(f"{where}: not text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not whole JSON ({error})") from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # json itself takes the last value, other readers the first: a signed text must mean one thing.
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(
                f"key {name[:60]!r} stands twice in one object; readers differ in which they take"
            )
        found[name] = value
    return found


def _whole_number(text: str) -> int:
    # The length first: turning a million digits into a number would take minutes.
    if len(text) > 17 or abs(int(text)) > MAX_INTEGER:
        raise ValueError(f"number {text[:40]} is beyond 2^53 - 1, where readers begin to round")
    return int(text)


def _refuse_number(text: str) -> float:
    # Readers round fractions differently, and RFC 8785 has no NaN.
    raise ValueError(f"number {text[:40]} is not allowed; numbers are whole, without point or exponent")
