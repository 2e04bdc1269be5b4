"""Input that a ledger accepts, and its messages about all other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from databases import postgres_url

from fedsgt.errors import InputError
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Ledger


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger.create(ledger_url, "run", {}) as made:
        yield made


@pytest.mark.parametrize(
    "body", [[], None, {"a": float("nan")}, {"a": {1, 2}}, {"a": b"x"}, {1: 2, "b": 3}], ids=repr
)
def test_a_body_that_is_no_json_is_refused(ledger: Ledger, body: Any) -> None:
    with ledger.writing() as writer:
        with pytest.raises(InputError, match="body of a ledger entry"):
            writer.append(Kind.REQUEST, body)
        writer.append(Kind.REQUEST, {"n": 1})
    assert [entry.body for entry in ledger.entries()] == [{}, {"n": 1}]


def test_any_text_comes_back(ledger: Ledger, ledger_url: str) -> None:
    body: dict[str, Any] = {
        "z": "\0 \ud800 ü %s %(run)s :run ' \" \\",
        "a": [1.5, 10**30, None, True, {"b": {}}],
    }
    with ledger.writing() as writer:
        writer.append(Kind.REQUEST, body)
    with Ledger.open(ledger_url, "run") as fresh:
        assert fresh.entries(1)[0].body == body


@pytest.mark.parametrize("kind", ["", "A", "two words", "deleted", "request", None])
def test_a_kind_is_a_member_of_the_enum(ledger: Ledger, kind: Any) -> None:
    with ledger.writing() as writer, pytest.raises(InputError, match="ledger kind"):
        writer.append(kind, {})


@pytest.mark.parametrize("text", ["", None])
def test_keys_and_runs_are_texts(ledger: Ledger, ledger_url: str, text: Any) -> None:
    with pytest.raises(InputError, match="idempotency key"):
        ledger.find(text)
    with pytest.raises(InputError, match="run id"):
        Ledger.open(ledger_url, text)


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "sqlite://", "sqlite:///:memory:", "sqlite:///a?mode=ro", "mysql://h/d", "x://h:p/d"],
)
def test_an_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"sqlite:///FILE or postgresql://"):
        Ledger.open(url, "run")


def test_psycopg_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match=r"pip install 'fedsgt\[postgres\]'"):
        Ledger.open("postgresql://localhost/x", "run")


def test_both_names_of_the_driver() -> None:
    url = postgres_url()
    Ledger.create(url, "run", {}).close()
    with Ledger.open(url.replace("postgresql://", "postgresql+psycopg://"), "run") as ledger:
        assert ledger.head() == 1
