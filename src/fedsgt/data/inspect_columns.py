"""Tell the columns of a table apart: which has the ids, the labels, the owners and the inputs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from fedsgt.data.dataset import ROW
from fedsgt.data.sources.files import IMAGE_SUFFIXES
from fedsgt.errors import InputError

# Names of columns as people write them, without case, blanks and marks; the first that fits is taken.
ID_NAMES = "id uid uuid guid recordid rowid sampleid exampleid imageid key index"
LABEL_NAMES = "label labels class target category labeltext labelname classname y sentiment outcome"
CLIENT_NAMES = (
    "client clientid owner ownerid hospital hospitalid site siteid user userid institution clinic center "
    "centre device deviceid customer customerid organisation organization bank school company author writer"
)
TEXT_NAMES = "sentence text review content body message comment document question"
TEXT_PAIRS = (("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"))
IMAGE_NAMES = "image img picture photo file filename path imagepath"
MOST_LABELS = 1000
_WHOLE = re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")

Kind = Literal["images", "paths", "text", "number", "other"]


@dataclass(frozen=True)
class Column:
    """One column of a table, with its values as the file has them."""

    name: str
    values: Sequence[Any]
    declared: tuple[str, ...] | None = None
    """Names that its numbers stand for, if the file declares them."""

    @cached_property
    def kind(self) -> Kind:
        """Kind of all values that are there; csv writes numbers as texts."""
        there = [value for value in self.values if value is not None and value != ""]
        if not there:
            return "other"
        if all(isinstance(value, bytes) or (isinstance(value, dict) and "bytes" in value) for value in there):
            return "images"
        if not all(type(value) in (int, str) for value in there):
            return "other"
        texts = [value for value in there if isinstance(value, str)]
        if all(map(_WHOLE.fullmatch, texts)):
            return "number"
        if len(texts) < len(there) or all(map(_DECIMAL.fullmatch, texts)):
            return "other"
        return "paths" if all(map(_is_image_path, texts)) else "text"

    @cached_property
    def texts(self) -> list[str]:
        """Values as ids, labels and owners are compared; empty where there is none."""
        return ["" if value is None else str(value) for value in self.values]

    @cached_property
    def distinct(self) -> frozenset[str]:
        """The different values."""
        return frozenset(self.texts)

    def is_filled(self) -> bool:
        """Whether every row has a text or a whole number."""
        return self.kind in ("text", "number", "paths") and "" not in self.distinct

    def is_unique(self) -> bool:
        """Whether every row has a value of its own."""
        return self.is_filled() and len(self.distinct) == len(self.values)

    def has(self, least: int, most: int) -> bool:
        """Whether every row has a value, and there are so many different ones."""
        return self.is_filled() and least <= len(self.distinct) <= most


@dataclass(frozen=True)
class Role:
    """What a column can be to a run, and how it is told from the others."""

    option: str
    """Option that names the column."""
    what: str
    """Condition on its values, in words."""
    names: Sequence[str]
    """Usual names."""
    fits: Callable[[Column], bool]
    """Whether a column that nobody named can be it."""
    allowed: Callable[[Column], bool]
    """Whether a column that somebody named can be it."""


ID = Role(
    "--id-column",
    "ids: a value of its own in every row",
    ID_NAMES.split(),
    Column.is_unique,
    Column.is_unique,
)
LABEL = Role(
    "--label-column",
    f"labels: 2 to {MOST_LABELS} different texts or whole numbers, and one in every row",
    LABEL_NAMES.split(),
    lambda column: column.has(2, min(MOST_LABELS, max(2, len(column.values) // 3))),
    lambda column: column.has(2, MOST_LABELS),
)
CLIENT = Role(
    "--client-column",
    "owners: 2 or more different texts or whole numbers, and one in every row",
    CLIENT_NAMES.split(),
    lambda column: column.has(2, len(column.values) // 10),
    lambda column: column.has(2, len(column.values)),
)


class Picker:
    """Picks columns of a table; each is picked once."""

    def __init__(self, where: str, columns: Iterable[Column]) -> None:
        self.where = where
        self.left = {column.name: column for column in columns}
        self.names = tuple(self.left)

    def asked(self, role: Role, name: str | None) -> Column | None:
        """Return the column that somebody named; None if nobody did."""
        if name is None:
            return None
        column = self._take(name, role.option)
        if not role.allowed(column):
            raise InputError(f"{self.where}: {role.option} {name!r} has no {role.what}")
        return column

    def usual(self, role: Role) -> Column | None:
        """Return the first column that has a usual name and fits; None if there is none."""
        by_name = {_plain(name): name for name in reversed(self.left)}
        usual = (by_name[name] for name in role.names if name in by_name)
        found = next((name for name in usual if role.fits(self.left[name])), None)
        return None if found is None else self.left.pop(found)

    def labels(self) -> Column:
        """Return the last column that can be the labels."""
        return self._any(LABEL, reversed(self.left), "")

    def ids(self) -> Column:
        """Return the first column that can be the ids."""
        return self._any(ID, iter(self.left), f", or '{ROW}' if rows never move")

    def asked_inputs(self, names: Sequence[str]) -> list[Column]:
        """Return the input columns that were asked for."""
        found = [self._take(name, "--input-column") for name in names]
        kinds = {column.kind for column in found}
        if found and kinds != {"text"} and (len(found) > 1 or not kinds <= {"images", "paths"}):
            raise InputError(
                f"{self.where}: {', '.join(map(repr, names))} cannot be the input; allowed: one or two "
                "columns of texts, or one of images or of their paths"
            )
        return found

    def inputs(self) -> list[Column]:
        """Return the column of images, or else one or two of texts: by name, or the one with the longest."""
        images = self._kind("images", IMAGE_NAMES) or self._kind("paths", IMAGE_NAMES)
        if images:
            return [self.left.pop(images)]
        plain = {_plain(column.name): column.name for column in self.left.values() if column.kind == "text"}
        for pair in TEXT_PAIRS:
            if plain.keys() >= set(pair):
                return [self.left.pop(plain[name]) for name in pair]
        text = self._kind("text", TEXT_NAMES, longest=True)
        if text is None:
            raise self._lacks("images, paths of images or texts", "--input-column NAME")
        return [self.left.pop(text)]

    def _kind(self, kind: Kind, names: str, longest: bool = False) -> str | None:
        """Return the column of this kind with the first usual name; else the one with the longest texts."""
        fitting = [column for column in self.left.values() if column.kind == kind]
        plain = {_plain(column.name): column.name for column in reversed(fitting)}
        named = next((plain[name] for name in names.split() if name in plain), None)
        if named is not None or not fitting:
            return named
        length = (lambda column: sum(map(len, column.texts))) if longest else (lambda column: 0)
        return max(fitting, key=length).name

    def _any(self, role: Role, names: Iterable[str], otherwise: str) -> Column:
        found = next((name for name in names if role.fits(self.left[name])), None)
        if found is None:
            raise self._lacks(role.what, f"{role.option} NAME{otherwise}")
        return self.left.pop(found)

    def _take(self, name: str, option: str) -> Column:
        if name not in self.left:
            there = "is given twice" if name in self.names else "is no column"
            raise InputError(f"{self.where}: {option} {name!r} {there}; its columns: {self._shown()}")
        return self.left.pop(name)

    def _lacks(self, what: str, remedy: str) -> InputError:
        return InputError(
            f"{self.where}: no column has {what}; its columns: {self._shown()}; name one with {remedy}"
        )

    def _shown(self) -> str:
        return ", ".join(map(repr, self.names)) or "none"


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _is_image_path(text: str) -> bool:
    return os.path.splitext(text)[1].lower() in IMAGE_SUFFIXES
