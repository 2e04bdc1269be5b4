"""A report as its reader has it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

ALONE = {"meta", "rect", "path", "polyline", "circle", "use", "br"}


class Page(HTMLParser):
    """Checks that tags match, and collects what the tests ask about."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text(encoding="utf-8")
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.classes: list[str] = []
        self.links: list[str] = []
        self.position = -1
        self.feed(self.text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.classes.append(given.get("class") or "")
        self.links += [given["href"] or ""] if "href" in given else []
        if given.get("name") == "fedsgt-ledger":
            self.position = int(given["content"] or -1)
        if tag not in ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        assert tag in ALONE

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.words).split())
