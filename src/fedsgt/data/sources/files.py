"""Files and folders of records on this machine: their formats, and the parts that a source has."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

from fedsgt.errors import InputError

Format: TypeAlias = Literal["csv", "jsonl", "parquet", "images", "saved"]
Stamp: TypeAlias = tuple[int, int, int]

SUFFIXES: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}
"""Format of a file of records, by its suffix."""
IMAGE_SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"}
)
TRAIN: Final = "train"
TEST_PARTS = ("test", "validation", "valid", "val", "dev")
"""Names of a part to test on; the first of them that a source has is used."""
# Files that the datasets library puts into a folder that it saves: one of several splits, or of a single one.
_SAVED_SPLITS, _SAVED = "dataset_dict.json", "state.json"


def format_of(path: Path) -> Format | None:
    """Return the format of a file or folder of records; None if it is of no known format.

    The format of a folder with several parts is that of its training part.
    """
    if path.is_file():
        return SUFFIXES.get(path.suffix.lower())
    if not path.is_dir():
        return None
    if _is_saved(path):
        return "saved"
    part = parts_of(path).get(TRAIN)
    return "images" if part == path else None if part is None else format_of(part)


def parts_of(path: Path) -> dict[str, Path]:
    """Return the parts of a local source by name, each a file or folder; empty if it has none.

    A single file, a folder of images by label and a saved data set without splits are a part `train`. Other
    folders have a part for each file, such as `test` for test.csv, or for each folder inside them.
    """
    if not path.is_dir():
        return {TRAIN: path} if format_of(path) else {}
    if _is_saved(path):
        return {TRAIN: path}
    folders, files = _inside(path)
    if _SAVED_SPLITS in files:
        return {name: path / name for name in folders if _is_saved(path / name)}
    tables = [path / name for name in files if os.path.splitext(name)[1].lower() in SUFFIXES]
    if tables:
        return _parts_of_files(tables)
    # A label may be called train as well, but then there are images right in that folder.
    if TRAIN in folders and _has_parts(path / TRAIN):
        return {name: path / name for name in folders}
    return {TRAIN: path} if folders else {}


def training_files(source: str) -> Path | None:
    """Return the local file or folder with the source's training records; None if there is none.

    `format_of` tells what it is. Links are resolved: a rewrite would otherwise replace the link and leave
    the records where it leads.
    """
    try:
        found = parts_of(Path(os.path.expanduser(source))).get(TRAIN)
    except (InputError, ValueError):  # two files for one part, or a text that no path can be
        return None
    return None if found is None else found.resolve()


def label_folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder of images, one for each label, sorted."""
    return _inside(folder)[0]


def image_files(folder: Path) -> list[str]:
    """Return the names of the images right in a label's folder, sorted.

    Hidden files, and files of other suffixes, do not count.
    """
    return [name for name in _inside(folder)[1] if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES]


def stamps_of(path: Path) -> list[Stamp]:
    """Return what changes whenever a file of the part is written, replaced, added or removed."""
    if not path.is_dir():
        return [_stamp(path.stat())]
    return _stamps_in(path) + [stamp for name in label_folders(path) for stamp in _stamps_in(path / name)]


def _stamps_in(folder: Path) -> list[Stamp]:
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # it went meanwhile
                if entry.is_file():
                    found.append(_stamp(entry.stat()))
    return sorted(found)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _is_saved(folder: Path) -> bool:
    return (folder / _SAVED).is_file() and (folder / "dataset_info.json").is_file()


def _has_parts(folder: Path) -> bool:
    """Whether a folder called train holds a part of a source, and not the images of a label."""
    return bool(label_folders(folder)) and not image_files(folder)


def _parts_of_files(files: Iterable[Path]) -> dict[str, Path]:
    parts: dict[str, Path] = {}
    for file in files:
        other = parts.setdefault(file.stem, file)
        if other is not file:
            raise InputError(
                f"{file.parent}: {other.name} and {file.name} are both the part {file.stem}; keep one of them"
            )
    return parts


def _inside(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the files right in a folder, sorted, without hidden ones."""
    folders, files = list[str](), list[str]()
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
    return sorted(folders), sorted(files)
