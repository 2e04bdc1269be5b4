"""Take deleted records out of their owner's file or folder, and tell what happened to it.

Reasons name no folder and no id: they stand in ledgers and certificates.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from fedsgt.data.dataset import ROW
from fedsgt.data.sources.arrow import is_text, plain_type
from fedsgt.data.sources.files import Format, format_of, label_folders, training_files
from fedsgt.data.sources.parts import DIGITS
from fedsgt.data.sources.remove_images import remove_images
from fedsgt.data.sources.rewrite import other_links, rewrite_file, sweep_rewrites
from fedsgt.errors import InputError
from fedsgt.files.optional import require
from fedsgt.files.places import looks_like_hub_name
from fedsgt.words import counted

REWRITABLE: tuple[Format, ...] = ("csv", "jsonl", "parquet", "images")
"""Formats that deleted records can be taken out of."""
Action: TypeAlias = Literal["rewritten", "removed", "left"]
"""What happens to a place of records: a file is rewritten, images of a folder are removed, or all is left."""


@dataclass(frozen=True)
class Erasure:
    """What was done to a file or folder of records."""

    action: Action
    rows: int
    """Number of rows (images) that went, or that are left though they were to go."""
    reason: str | None = None
    """Why it was left, or where else the records still are."""


def check_can_erase(source: str, id_column: str) -> None:
    """Raise if deleted records could never be taken out of this source, for a run that is to be made so."""
    path = training_files(source)
    kind = None if path is None else format_of(path)
    if id_column == ROW:
        problem = f"the ids are row numbers (data.id_column is {ROW}), and rows that go would move the others"
    elif kind in REWRITABLE or (path is None and not (source == DIGITS or looks_like_hub_name(source))):
        return  # a source that is not there is told when it is read
    else:
        what = "it is a folder that the datasets library saved" if kind == "saved" else "it is no file here"
        problem = f"data.source {source!r} cannot be rewritten: {what}"
    raise InputError(
        f'data.erase is "rewrite", but {problem}; set it to "tombstone", or keep the records in a csv, jsonl '
        "or parquet file or in folders of images"
    )


def why_kept(path: Path) -> str | None:
    """Return why no record can be taken out of this file or folder; None if that can be tried."""
    if not path.exists():
        return "it is not there: take the rows out of it yourself, wherever it is"
    try:
        kind = format_of(path)
        written = [path / name for name in label_folders(path)] if kind == "images" else [path, path.parent]
    except OSError as error:
        return f"it cannot be looked at ({error.strerror}): take the rows out of it yourself"
    if kind not in REWRITABLE:
        return "it is of a format that is not rewritten: take the rows out of it yourself"
    if not all(os.access(place, os.W_OK) for place in written):
        return "it cannot be written: take the rows out of it yourself"
    return None


def planned_action(path: Path) -> Action:
    """Return what happens to a place that `why_kept` has no objection to."""
    return "removed" if format_of(path) == "images" else "rewritten"


def images_kept(path: Path, inputs: Sequence[str]) -> str | None:
    """Return in words that the rows of a file name images by their paths, which stay; None if they do not.

    `inputs` are the columns of images. Other tables may name the same files, so they are never removed.
    """
    kind = format_of(path) if inputs else None
    if kind == "parquet":
        arrow = require("pyarrow")
        try:
            schema = require("pyarrow.parquet").read_schema(path)
            types = [schema.field(name).type for name in inputs if name in schema.names]
        except (OSError, arrow.ArrowException):
            return None  # nothing is taken out of such a file
        # Anything but a text is the image itself.
        named = any(is_text(plain_type(one)) for one in types)
    else:
        named = kind in ("csv", "jsonl")
    return "the image files that its rows name are not touched" if named else None


def erase_records(path: Path, id_column: str, gone: Collection[str]) -> list[Erasure]:
    """Take the records of these ids out of the file or folder; raise `InputError` if it is left for good.

    A folder can lose some images and keep others: then there are two answers.
    """
    try:
        if planned_action(path) == "removed":
            return _removed(path, gone)
        sweep_rewrites(path)  # a killed rewrite may have left a copy of all rows
        others = other_links(path)
        went = rewrite_file(path, id_column, gone) if gone else 0
    except InputError as error:
        raise InputError(str(error).replace(str(path), path.name)) from error
    except OSError as error:
        raise InputError(f"it cannot be looked at ({error.strerror})") from error
    if not went:
        return [Erasure("left", 0, "none of the rows is in it any more")]
    # A rewrite puts a new file in place of one name; those of the old one lead to all rows as before.
    kept = f"the old file, with the rows, has {counted(others, 'other name')} (hard links)"
    return [Erasure("rewritten", went, kept if others else None)]


def _removed(folder: Path, gone: Collection[str]) -> list[Erasure]:
    found, answers = remove_images(folder, gone), []
    if found.removed:
        kept = f"the image files have {counted(found.other_links, 'other name')} (hard links)"
        answers.append(Erasure("removed", found.removed, kept if found.other_links else None))
    if found.left:
        answers.append(Erasure("left", found.left, found.reason))
    return answers or [Erasure("left", 0, "none of the images is in it any more")]
