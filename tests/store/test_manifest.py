"""A manifest has one text, and that text is a manifest or an error in one line."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedsgt.errors import InputError
from fedsgt.store import Manifest, Origin, compare

VALUES: dict[str, Any] = {
    "key": "a" * 64,
    "parent": None,
    "groups": [3, 1],
    "prefix": ["b" * 64, "c" * 64],
    "config_hash": "d" * 64,
    "config": {"training": {"epochs": 3, "clip": None, "rates": [0.1, 1e-9]}},
    "backbone": "e" * 64,
    "rounds": 2,
    "participants": [{"north": 10, "süd": 2}, {}],
    "seed": 2**80,
    "versions": {"torch": "2.13.0"},
    "profile": {"threads": 1},
    "machine": {"cpu": "Z80", "flags": ["a"]},
    "metrics": {"loss": 0.5, "accuracy": 1.0},
    "sha256": "f" * 64,
}


def manifest(**changes: Any) -> Manifest:
    return Manifest.model_validate({**VALUES, **changes})


def test_the_text_is_canonical_and_read_back() -> None:
    text = manifest().to_bytes()
    assert (
        text
        == (json.dumps({"format": 1, **VALUES}, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode()
    )
    assert Manifest.from_bytes(text) == manifest()
    backwards = Manifest.model_validate(dict(reversed(VALUES.items())))
    assert backwards.to_bytes() == text


@given(
    st.dictionaries(st.text("ab"), st.floats(allow_nan=False, allow_infinity=False)),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
)
def test_every_manifest_is_read_back(metrics: dict[str, float], setting: Any) -> None:
    made = manifest(metrics=metrics, config={"setting": setting})
    assert Manifest.from_bytes(made.to_bytes()) == made


def test_no_clock_and_nothing_else_is_in_it() -> None:
    assert set(Manifest.model_fields) == {"format", *VALUES}


def test_a_manifest_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        manifest().__setattr__("seed", 1)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"format": 2}, "format"),
        ({"key": "A" * 64}, "key"),
        ({"key": "a" * 64 + "\n"}, "key"),
        ({"parent": "x"}, "parent"),
        ({"groups": [1]}, "1 group with 2 fingerprints"),
        ({"groups": [1, -1]}, "groups.1"),
        ({"groups": [1, 1.0]}, "groups.1"),
        ({"rounds": 1}, "participants of 2 rounds; there were 1"),
        ({"participants": [{"north": -1}, {}]}, "participants.0.north"),
        ({"participants": [{"north": "1"}, {}]}, "participants.0.north"),
        ({"seed": True}, "seed"),
        ({"metrics": {"loss": math.nan}}, "metrics.loss: Input should be a finite number"),
        ({"metrics": {"loss": -math.inf}}, "metrics.loss"),
        ({"config": {"rate": math.nan}}, "config.rate"),
        ({"machine": {"cpu": {1, 2}}}, "machine.cpu"),
        ({"made_at": "noon"}, "made_at"),
    ],
)
def test_wrong_values_are_refused_in_one_line(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError):
        manifest(**changes)
    values = {"format": 1, **VALUES, **changes}
    text = json.dumps(values, sort_keys=True, indent=2, ensure_ascii=False, default=repr) + "\n"
    if problem == "machine.cpu":
        return
    with pytest.raises(InputError, match=problem) as caught:
        Manifest.from_bytes(text.encode())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", sorted(VALUES))
def test_every_field_must_be_there(field: str) -> None:
    values = {name: value for name, value in VALUES.items() if name != field}
    with pytest.raises(InputError, match=f"{field}: Field required"):
        Manifest.from_bytes(json.dumps(values).encode())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: b"",
        lambda text: text[:-1],
        lambda text: text[: len(text) // 2],
        lambda text: text + b"\n",
        lambda text: b"\xff" + text,
        lambda text: b"[]",
        lambda text: b"[" * 100_000,
        lambda text: text.replace(b'"seed"', b'"seed": 1, "seed"'),
        lambda text: text.replace(b'"loss": 0.5', b'"loss": 5e-1'),
        lambda text: text.replace(b'"loss": 0.5', b'"loss": NaN'),
        lambda text: text.replace(b'"loss": 0.5', b'"loss": 1e999'),
        lambda text: text.replace(b"\n", b"\r\n"),
    ],
)
def test_any_other_text_is_refused(spoil: Any) -> None:
    spoilt = spoil(manifest().to_bytes())
    with pytest.raises(InputError) as caught:
        Manifest.from_bytes(spoilt)
    assert "\n" not in str(caught.value)


def test_the_hash_is_added_to_an_origin_and_checked_in_a_manifest() -> None:
    origin = Origin.model_validate({name: value for name, value in VALUES.items() if name != "sha256"})
    assert Manifest.of(origin, "f" * 64) == manifest()
    assert Manifest.of(manifest(), "f" * 64) == manifest()
    with pytest.raises(InputError, match=f"hash to {'0' * 64}, not to {'f' * 64}"):
        Manifest.of(manifest(), "0" * 64)


def test_equal_bytes_are_the_same_wherever_they_were_made() -> None:
    other = manifest(machine={"cpu": "6502"}, profile={}, metrics={})
    assert compare(manifest(), other).verdict == "same"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"key": "0" * 64, "backbone": "0" * 64}, f"key {'a' * 64} against {'0' * 64}"),
        ({"key": "0" * 64, "profile": {"threads": 2}}, "profile threads 1 against 2"),
        ({"machine": {"cpu": "6502", "flags": ["a"]}}, "machine cpu 'Z80' against '6502'"),
        ({"machine": {"cpu": "Z80"}}, r"machine flags \['a'\] against none"),
        ({"profile": {"threads": 2}}, "profile threads 1 against 2"),
        ({"profile": {"threads": 1, "tf32": None}}, "profile tf32 none against None"),
        ({"profile": {}, "machine": {}}, "profile threads 1 against none, machine cpu"),
    ],
)
def test_other_bytes_made_otherwise_cannot_be_compared(changes: dict[str, Any], reason: str) -> None:
    ours, theirs = manifest(), manifest(sha256="0" * 64, **changes)
    comparison = compare(ours, theirs)
    assert comparison.verdict == compare(theirs, ours).verdict == "not comparable"
    assert re.search(reason, comparison.reason)


def test_other_bytes_made_alike_are_different() -> None:
    comparison = compare(manifest(), manifest(sha256="0" * 64, metrics={"loss": 0.25}))
    assert comparison.verdict == "different"
    assert comparison.reason == f"hash {'f' * 64} against {'0' * 64}, made under the same conditions"


def test_versions_are_named_where_bytes_differ() -> None:
    comparison = compare(manifest(), manifest(sha256="0" * 64, versions={"torch": "2.12.0"}))
    assert comparison.verdict == "different"
    assert comparison.reason.endswith("but for versions torch '2.13.0' against '2.12.0'")
