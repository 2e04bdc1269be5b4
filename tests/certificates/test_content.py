"""A certificate says one consistent thing, and the documents name all of its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from certificates import certificate, digest
from fedsgt.certificates.content import Certificate

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("completion.position", 7, "completion is not after the request"),
        ("destroyed.0.module", digest("c"), "both destroyed and served"),
        ("served.modules.0.prefix", [2, 5], "group 5 is in a prefix and has no fingerprint"),
        ("served.groups", {"0": digest("7"), "02": digest("8")}, "pattern"),
        ("request.parts.0.records", [digest("4")], "1 record with a count of 2"),
        ("request.parts.0.client", "Alice", "pattern"),
        ("request.parts", [], "at least 1"),
        ("request.time", "yesterday", "pattern"),
        ("request.position", -1, "greater than or equal to 0"),
        ("request.position", True, "valid integer"),
        ("served.modules.0.sha256", digest("A"), "pattern"),
        ("destroyed.0.kind", "A Kind", "pattern"),
        ("software", {"Zoë": "1"}, "pattern"),
        ("groups_hit", {"2": digest("8")}, "group 2 was hit, and is served as it was"),
        ("groups_hit", {"two": digest("8")}, "pattern"),
        ("destroyed.2.name", f"statistics/backbone/2-{'cd' * 8}.safetensors", "both destroyed and served"),
        (
            "served.heads.chains.1.chain",
            digest("d"),
            "solved for module dddddddddddd, which is not served",
        ),
        ("served.heads.chains.1.chain", "backbone", "a chain has two heads"),
        ("served.heads.chains.1.chain", "floor", "pattern"),
        ("served.heads.chains.1.clients", [2, 0], "not in order, each once"),
        ("served.heads.chains.1.clients", [], "at least 1"),
        ("served.heads.chains.1.clients", [0, 3], "client 3 has a statistic or a mark, and not both"),
        ("served.heads.marks", {"0": "ab" * 8, "2": "cd" * 8, "4": "ef" * 8}, "client 4 has a statistic or"),
        ("served.heads", None, "served.heads is missing"),
        ("format", 2, "served.heads is no field of format 2"),
        ("keys", [{"position": 5, "key": digest("1")}] * 2, "not in the order of the ledger"),
        (
            "sources",
            [{"file": "a", "action": "burnt", "rows": 1, "reason": None}],
            "'removed' or 'left'",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(place: str, value: Any, said: str) -> None:
    body = certificate().model_dump(mode="json")
    *path, last = place.split(".")
    part: Any = body
    for name in path:
        part = part[int(name) if name.isdigit() else name]
    part[last] = value
    with pytest.raises(ValidationError, match=said):
        Certificate.model_validate(body)


def test_a_certificate_of_an_earlier_format_is_still_one() -> None:
    body: Any = certificate().model_dump(mode="json")
    del body["served"]["heads"]
    assert Certificate.model_validate({**body, "format": 2}).served.heads is None
    for name in ("groups_hit", "sources", "keys"):
        del body[name]
    assert Certificate.model_validate({**body, "format": 1}).served.heads is None


def test_another_statistic_of_the_same_client_may_be_served() -> None:
    """It was made without the deleted records, as its mark says."""
    body: Any = certificate().model_dump(mode="json")
    body["destroyed"][2]["name"] = f"statistics/backbone/2-{'ab' * 8}.safetensors"
    Certificate.model_validate(body)


def test_a_module_listed_twice_is_refused() -> None:
    body: Any = certificate().model_dump(mode="json")
    body["served"]["modules"] *= 2
    with pytest.raises(ValidationError, match="listed twice"):
        Certificate.model_validate(body)


def test_a_group_that_was_trained_again_may_be_served() -> None:
    body: Any = certificate().model_dump(mode="json")
    body["groups_hit"] = {"2": digest("f"), "7": digest("7")}
    Certificate.model_validate(body)


def test_every_part_is_documented() -> None:
    page = (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8")
    for name in Certificate.model_fields:
        assert f"| `{name}` |" in page, name
