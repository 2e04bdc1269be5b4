"""Every definition that code or a document cites stands in docs/definitions.md."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
from documents import PAGES, README, ROOT

PAGE = ROOT / "docs" / "definitions.md"
CITED = re.compile(r"\b[Dd]efinitions? (\d+)(?: and (\d+))?")
FOLDERS = ("src", "tests", "experiments", "benchmarks", "scripts")


def defined() -> list[int]:
    """Return the numbers of the definitions, in the order of the page."""
    return [int(number) for number in re.findall(r"^### (\d+)\. ", PAGE.read_text("utf-8"), re.MULTILINE)]


def files() -> list[Path]:
    """Return every source file and page that may cite a definition."""
    sources = chain.from_iterable((ROOT / folder).rglob("*.py") for folder in FOLDERS)
    return [path for path in (*sources, *PAGES, README) if path not in (PAGE, Path(__file__))]


def test_definitions_are_numbered_from_one() -> None:
    assert defined() == list(range(1, 17))


def test_every_cited_definition_exists() -> None:
    cited: dict[int, list[str]] = {}
    for path in files():
        for match in CITED.finditer(path.read_text("utf-8")):
            for number in filter(None, match.groups()):
                cited.setdefault(int(number), []).append(str(path.relative_to(ROOT)))
    assert len(cited) >= 5, "the page is what the code cites"
    assert {number: places for number, places in cited.items() if number not in defined()} == {}


@pytest.mark.parametrize("word", ["SPEC", "DESIGN.md"])
def test_nothing_cites_a_page_that_is_not_here(word: str) -> None:
    citing = [
        str(path.relative_to(ROOT)) for path in files() if re.search(rf"\b{word}\b", path.read_text("utf-8"))
    ]
    assert citing == []
