"""Look at a source once, for `fedsgt init`: its columns, its labels and its owners.

What is found goes into a configuration and nowhere else. Nothing looks again later, so labels and owners
that only deleted records had leave no trace in a run.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedsgt.data.dataset import ROW
from fedsgt.data.inspect_columns import CLIENT, ID, LABEL, Column, Picker
from fedsgt.data.sources import FORMATS
from fedsgt.data.sources.files import TEST_PARTS, TRAIN, Format, format_of, label_folders, parts_of
from fedsgt.data.sources.parts import ALLOWED
from fedsgt.errors import InputError
from fedsgt.files.places import missing_place


@dataclass(frozen=True)
class Asked:
    """Columns that somebody named; those that are not named are looked for."""

    id: str | None = None
    label: str | None = None
    inputs: tuple[str, ...] = ()
    client: str | None = None


@dataclass(frozen=True)
class Found:
    """A source in the terms of a configuration. A folder of images has no columns."""

    format: Format
    records: int
    """Number of records in the training part."""
    task: Literal["image", "text"]
    labels: tuple[str, ...]
    """The labels, in their order."""
    numbered: bool = False
    """Whether the source writes labels as numbers from 0 on."""
    inputs: tuple[str, ...] = ()
    paths: bool = False
    """Whether the input column names image files."""
    id: str | None = None
    label: str | None = None
    client: str | None = None
    owners: tuple[int, ...] = ()
    """Number of records of each owner, if a column names them."""
    test: Path | None = None
    """Part to test on; None if the source has none."""


def look_at(source: str, asked: Asked) -> Found:
    """Read the source, and find what a configuration needs; raise `InputError` if it cannot be found."""
    path = Path(os.path.expanduser(source))
    try:
        if not path.exists():
            raise InputError(f"--data {missing_place(source)} (allowed: {ALLOWED})")
        parts = parts_of(path)
        kind = format_of(parts[TRAIN]) if TRAIN in parts else None
    except OSError as error:
        raise InputError(f"--data {source!r} cannot be read ({error.strerror})") from None
    if kind is None:
        has = f"has no part {TRAIN}, but {', '.join(parts)}" if parts else "is of no known format"
        raise InputError(f"--data {source!r} {has}; allowed: {ALLOWED}")
    test = next((parts[name] for name in TEST_PARTS if name in parts), None)
    if kind == "images":
        return _look_at_images(parts[TRAIN], test, asked)
    return _look_at_table(parts[TRAIN], kind, test, asked)


def _look_at_images(train: Path, test: Path | None, asked: Asked) -> Found:
    if asked != Asked():
        raise InputError(f"{train}: it is a folder of images, which has no columns; leave their options out")
    # Read, so that what is wrong with the folder is told now.
    images = FORMATS["images"].read(train, (), (), None)
    if not len(images):
        raise InputError(f"{train}: there is no image in it; allowed: label/image.png and the like")
    labels = {label for part in (train, test) if part is not None for label in label_folders(part)}
    if len(labels) < 2:
        raise InputError(
            f"{train}: there is 1 label; allowed: a folder of images for each of 2 labels or more"
        )
    return Found("images", len(images), "image", tuple(sorted(labels)), test=test)


def _look_at_table(train: Path, kind: Format, test: Path | None, asked: Asked) -> Found:
    picker = Picker(str(train), _read(train, kind))
    # Columns that somebody named go first, and then those whose names say it: so none is taken for another.
    inputs = picker.asked_inputs(asked.inputs)
    label, client = picker.asked(LABEL, asked.label), picker.asked(CLIENT, asked.client)
    record = None if asked.id == ROW else picker.asked(ID, asked.id)
    label, client = label or picker.usual(LABEL), client or picker.usual(CLIENT)
    record = record if record or asked.id == ROW else picker.usual(ID)
    inputs = inputs or picker.inputs()
    label = label or picker.labels()
    record = record if record or asked.id == ROW else picker.ids()
    labels, numbered = _labels(label, test)
    return Found(
        kind,
        len(label.values),
        "text" if inputs[0].kind == "text" else "image",
        labels,
        numbered,
        tuple(column.name for column in inputs),
        inputs[0].kind == "paths",
        record.name if record else ROW,
        label.name,
        client.name if client else None,
        tuple(Counter(client.texts).values()) if client else (),
        test,
    )


def _read(part: Path, kind: Format) -> list[Column]:
    """Return the columns of a file of records; those whose name is there twice are left out."""
    names = FORMATS[kind].columns(part)
    wanted = [name for name in names if names.count(name) == 1]
    table = FORMATS[kind].read(part, (), wanted, None)
    if not len(table):
        raise InputError(f"{part}: there are no records in it")
    return [Column(name, table.values(name), table.declared_names(name)) for name in wanted]


def _labels(label: Column, test: Path | None) -> tuple[tuple[str, ...], bool]:
    """Return the labels in order, and whether they are written as numbers from 0 on."""
    if label.declared is not None:
        return label.declared, True
    found, numbers = set(label.distinct), label.kind == "number"
    # A label that only the test part has would stop the training.
    kind = None if test is None else format_of(test)
    if test is not None and kind is not None:
        names = FORMATS[kind].columns(test)
        if names.count(label.name) == 1:
            there = Column(label.name, FORMATS[kind].read(test, (), [label.name], None).values(label.name))
            found, numbers = found | there.distinct, numbers and there.kind == "number"
    ordered = tuple(sorted(found, key=lambda text: (int(text), text)) if numbers else sorted(found))
    return ordered, ordered == tuple(map(str, range(len(ordered))))
