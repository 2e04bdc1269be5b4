"""One value has one encoding; its bytes are those of earlier versions, and no reader reads them otherwise."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.build.targets import Recipe
from fedsgt.certificates.signatures import DOMAIN
from fedsgt.errors import InputError
from fedsgt.files.encoding import canonical_json, frame, frames, parse_json, signed_json
from fedsgt.ledger.chain import key_hash, make_row
from fedsgt.ledger.kinds import Kind

# Floats, text beyond ASCII, characters that JSON escapes, and keys out of order.
VALUE: dict[str, Any] = {
    "b": [1, 2.0, 2e-3, 1e-7, 1e22, True, None],
    "a": 'ü\u2028\U0001f600/"\\\n',
    "": {"z": -0.0, "y": {}},
    "é": [],
}
PARTS = st.lists(st.binary(max_size=4) | st.text("ab\0é", max_size=4) | st.integers(), max_size=4)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# The hashes below were computed by version 0.1.0, before its four canonical forms became two functions.


def test_hashed_json_is_that_of_version_0_1_0() -> None:
    text = canonical_json(VALUE)
    assert text == (
        r'{"":{"y":{},"z":-0.0},"a":"\u00fc\u2028\ud83d\ude00/\"\\\n",'
        r'"b":[1,2.0,0.002,1e-07,1e+22,true,null],"\u00e9":[]}'
    )
    assert sha256(text.encode()) == "a281214393ef0b9077b3330d29c518d03b5222368ab7804a948be0f2c7641847"


def test_signed_json_is_that_of_version_0_1_0() -> None:
    assert sha256(signed_json(VALUE)) == "0fc20f8cf613afdc78f5fc596d99d4ad044f166a7a71635511bc1c10492c0eb0"
    assert DOMAIN == b"fedsgt.certificate.1\n"


def test_a_ledger_row_hashes_as_in_version_0_1_0() -> None:
    time = "2026-01-01T00:00:00.000000Z"
    row = make_row("run", None, Kind.REQUEST, time, VALUE, key_hash("run", "key"))
    assert row.hash == "d49e9df70edd73cc7cdc458b7c2d797b247a9a92a10e2f18e257a5159e1c1a67"


def test_a_module_has_the_key_of_version_0_1_0() -> None:
    recipe = Recipe(VALUE, "ab" * 32, {"torch": "2.9", "threads": "1", "name": "ü"})
    assert recipe.config_hash == "a281214393ef0b9077b3330d29c518d03b5222368ab7804a948be0f2c7641847"
    key = recipe.key(["cd" * 32, "ef" * 32])
    assert key == "8b83aab7fed568532acec8d7f3799f5a4e756418ec171546c4245b664aa62d82"


@given(PARTS, PARTS)
def test_frames_are_equal_only_for_the_same_parts(first: list[Any], second: list[Any]) -> None:
    assert (frames(*first) == frames(*second)) == (first == second)


def test_text_that_is_not_unicode_is_an_error() -> None:
    with pytest.raises(InputError, match="not valid Unicode"):
        frame("\ud800")


@pytest.mark.parametrize("part", [1.5, None, ["a"], bytearray(b"a")])
def test_other_types_have_no_frame(part: Any) -> None:
    with pytest.raises(InputError, match="allowed: bytes, str, int"):
        frames("a", part)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": -float("inf")}])
def test_numbers_that_json_does_not_have_are_not_hashed(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a":1,"b":{"a":2,"a":2}}', "key 'a' stands twice"),
        ('{"a":1.0}', "number 1.0 is not allowed; numbers are whole"),
        ('{"a":1e3}', "number 1e3 is not allowed"),
        ('{"a":NaN}', "number NaN is not allowed"),
        ('{"a":-Infinity}', "number -Infinity is not allowed"),
        (f'{{"a":{2**53}}}', "beyond 2^53 - 1"),
        (f'{{"a":-{2**53}}}', "beyond 2^53 - 1"),
        (f'{{"a":{"9" * 5000}}}', "beyond 2^53 - 1"),
        ("[" * 100000, "nested too deeply"),
        ("", "not whole JSON"),
        ("\ufeff{}", "not whole JSON"),
        ('{"a":1} x', "not whole JSON"),
    ],
)
def test_json_that_readers_read_differently_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        parse_json(text.encode(), "a.json")
    assert str(error.value).startswith("a.json: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("data", [b"\xff\xfe", b"{\x00}", b"\x80abc", '{"a":1}'.encode("utf-16")])
def test_bytes_that_are_no_text(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^a\.json: not"):
        parse_json(data, "a.json")
