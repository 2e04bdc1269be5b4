"""Bytes that can be read in one way only: what every hash of this package is taken over."""

from fedsgt.errors import InputError


def text_bytes(text: str) -> bytes:
    """UTF-8; half a surrogate pair, which UTF-8 cannot hold, is an error rather than a lossy guess."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"text {text!r} is not valid Unicode; allowed: anything that UTF-8 can hold"
        ) from error


def frame(part: bytes | str | int) -> bytes:
    """Kind, length, then the bytes themselves: joined frames never read as other frames."""
    if isinstance(part, str):
        kind, body = b"s", text_bytes(part)
    elif isinstance(part, bytes):
        kind, body = b"b", part
    elif isinstance(part, int):
        kind, body = b"i", part.to_bytes(part.bit_length() // 8 + 1, "big", signed=True)
    else:
        raise InputError(f"cannot hash {part!r} of type {type(part).__name__}; allowed: bytes, str, int")
    return kind + len(body).to_bytes(8, "big") + body


def frames(*parts: bytes | str | int) -> bytes:
    """Several frames after one another."""
    return b"".join(map(frame, parts))
