"""A signature holds for its text and its key only, however the text is spaced."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from fedsgt.certificates.keys import SigningKey
from fedsgt.certificates.signatures import BadSignature, sign, verify
from fedsgt.errors import InputError
from fedsgt.files.encoding import parse_json

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
OTHER = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
BODY: dict[str, JsonValue] = {"b": [1, 20, -300], "a": {"ü": "Zoë 🌱\n\u2028", "é": None}, "": True, "z": 0}
WIDE = 2**53 - 1

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-WIDE, WIDE) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abcé🌱\U0001f600\ufb33"), inner, max_size=4)
    ),
    max_leaves=12,
)


def compact(envelope: JsonValue) -> bytes:
    return json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()


def read(data: bytes) -> dict[str, JsonValue]:
    return verify(parse_json(data, "text"), KEY.public)


FILE = compact(sign(BODY, KEY))


def test_the_signed_bytes_are_those_of_the_standard() -> None:
    """Sorted keys, no spaces, UTF-8, after the domain: written by hand here."""
    inner = '{"é":null,"ü":"Zoë 🌱\\n\u2028"}'
    signed = f'fedsgt.certificate.1\n{{"":true,"a":{inner},"b":[1,20,-300],"z":0}}'
    value = base64.b64decode(json.loads(FILE)["signature"]["value"])
    KEY.public.key.verify(value, signed.encode())


@given(st.dictionaries(st.text("abcé🌱\ufb33"), json_values, max_size=4))
def test_what_is_signed_is_what_is_read(body: dict[str, JsonValue]) -> None:
    assert read(compact(sign(body, KEY))) == body


@given(st.integers(0, len(FILE) - 1), st.integers(1, 255))
def test_any_byte_that_changes_is_found(position: int, change: int) -> None:
    changed = bytearray(FILE)
    changed[position] ^= change
    with pytest.raises(InputError):
        read(bytes(changed))


@given(st.integers(0, len(FILE) - 1))
def test_a_truncated_file_is_no_text(length: int) -> None:
    with pytest.raises(InputError, match=r"not whole JSON|not text"):
        read(FILE[:length])


@given(st.randoms(use_true_random=False), st.sampled_from([None, 0, 3]), st.booleans())
def test_order_and_spaces_do_not_matter(order: random.Random, indent: int | None, escaped: bool) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: shuffled(value[name]) for name in order.sample(list(value), len(value))}
        return [shuffled(inner) for inner in value] if isinstance(value, list) else value

    text = json.dumps(shuffled(json.loads(FILE)), indent=indent, ensure_ascii=escaped)
    assert read(f" {text}\n".encode()) == BODY


def test_another_key_is_named() -> None:
    with pytest.raises(BadSignature, match=f"signed with key {KEY.public_id}, but .* {OTHER.public_id}"):
        verify(sign(BODY, KEY), OTHER.public)


def test_a_signature_under_another_keys_name_does_not_hold() -> None:
    envelope: Any = sign(BODY, OTHER)
    envelope["signature"]["key"] = KEY.public_id
    with pytest.raises(BadSignature, match="does not hold"):
        verify(envelope, KEY.public)


def test_a_signature_for_another_purpose_does_not_hold() -> None:
    envelope: Any = sign(BODY, KEY)
    bare = KEY.key.sign(compact(dict(sorted(BODY.items()))))
    envelope["signature"]["value"] = base64.b64encode(bare).decode()
    with pytest.raises(BadSignature, match="does not hold"):
        verify(envelope, KEY.public)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("algorithm", "none"),
        ("canonical", "RFC 8259"),
        ("key", "ab"),
        ("key", 1),
        ("value", ""),
        ("value", None),
        ("value", "\ud800"),
        ("value", "QUJD"),
        ("extra", 1),
    ],
)
def test_a_malformed_signature(name: str, value: Any) -> None:
    envelope: Any = sign(BODY, KEY)
    envelope["signature"][name] = value
    with pytest.raises(BadSignature, match="malformed signature"):
        verify(envelope, KEY.public)


def test_a_signature_has_one_spelling() -> None:
    """The last letter before the padding has four spare bits."""
    envelope: Any = sign(BODY, KEY)
    value = envelope["signature"]["value"]
    twin = value[:-3] + chr(ord(value[-3]) + 1) + "=="
    assert base64.b64decode(twin) == base64.b64decode(value)
    envelope["signature"]["value"] = twin
    with pytest.raises(BadSignature, match="malformed"):
        verify(envelope, KEY.public)


@pytest.mark.parametrize(
    "envelope",
    [[], None, {}, {"body": {}}, {"body": [], "signature": {}}, {"body": {}, "signature": {}, "x": 1}],
)
def test_what_is_no_signed_text(envelope: Any) -> None:
    with pytest.raises(InputError, match="not a signed text"):
        verify(envelope, KEY.public)


@pytest.mark.parametrize(
    "value", [2**53, float("nan"), float("inf"), 0.5, "\ud800", {"\ud800": 1}, {1: 2}, b"x"]
)
def test_what_could_not_be_read_back_is_not_signed(value: Any) -> None:
    with pytest.raises(InputError):
        sign({"a": value}, KEY)


def test_what_is_nested_too_deeply_is_not_signed() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InputError, match="nested too deeply"):
        sign({"a": deep}, KEY)


def test_a_number_is_read_as_it_was_signed() -> None:
    """1.0 and 1 have one canonical form: whoever gives either gets what the signed bytes say."""
    envelope = sign({"a": 1.0}, KEY)
    assert envelope["body"] == {"a": 1}
    again: Any = {**envelope, "body": {"a": 1.0}}
    assert repr(verify(again, KEY.public)) == "{'a': 1}"
