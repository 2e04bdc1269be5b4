"""Take deleted rows out of an owner's file: a new file is written beside it, checked, and put in its place.

A format says which of its bytes stay, and how to tell that the new file has exactly those.
"""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from fedsgt.data.sources.files import Format, format_of
from fedsgt.data.sources.rewrite_parquet import ParquetCut
from fedsgt.data.sources.rewrite_text import TextCut, csv_pieces, json_pieces
from fedsgt.errors import InputError
from fedsgt.files.durable import finished_path, remove_abandoned, reported, sync_folder, unfinished_file
from fedsgt.files.locks import held_in_place, leads_to
from fedsgt.files.optional import require
from fedsgt.words import one_line

# Ends the names of new files while they are written, so that nobody takes one for a part of the folder.
ERASING = ".erasing"


class Cut(Protocol):
    """A file without deleted rows, as its format has it; made while the file is locked."""

    @property
    def leaving(self) -> int:
        """Number of rows that leave the file."""

    def write(self, new: BinaryIO) -> None:
        """Write the rows that stay."""

    def is_whole(self, new: BinaryIO) -> bool:
        """Read the new file, and return whether it has exactly the rows that stay."""


_CUTS: dict[Format | None, Callable[[BinaryIO, str, Collection[str]], Cut]] = {
    "parquet": ParquetCut,
    "csv": partial(TextCut, csv_pieces),
    "jsonl": partial(TextCut, json_pieces),
}


def rewrite_file(path: Path, id_column: str, gone: Collection[str]) -> int:
    """Take the rows of these ids out of the file, and return how many went; 0 leaves the file as it is.

    A reader sees the old file or the new one and nothing between, also after a crash. Whoever rewrites the
    same file waits. The new file is read again before it takes the old one's place; if anything fails,
    the old one stays and `InputError` says why.
    """
    path = path.resolve()  # a rename would replace a link and leave the records where it leads
    arrow = require("pyarrow")
    try:
        with held_in_place(path) as old:
            sweep_rewrites(path)
            leaving = _rewrite(path, old, id_column, gone)
    except (OSError, UnicodeDecodeError, arrow.ArrowException, InputError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or one_line(error)
        raise InputError(
            f"{path}: deleted records cannot be taken out of it ({reason}); the file was not changed"
        ) from error
    if leaving:
        with reported("sync", path.parent):
            sync_folder(path.parent)  # the rename itself must be durable too
    return leaving


def other_links(path: Path) -> int:
    """Return how many other names the file has (hard links); a rewrite does not change what those lead to."""
    return path.stat().st_nlink - 1


def sweep_rewrites(path: Path) -> int:
    """Remove what killed rewrites of the file left beside it, which holds records; return how many."""
    path = path.resolve()
    # The first name is that of older versions.
    left = [path.with_name(f".{path.name}{ERASING}")]
    with reported("look into", path.parent), suppress(FileNotFoundError):
        left += [other for other in path.parent.iterdir() if finished_path(other) == _unnamed(path)]
    found = 0
    for unfinished in left:
        with reported("remove", unfinished):
            found += remove_abandoned(unfinished)
    if found:
        sync_folder(path.parent)
    return found


def _rewrite(path: Path, old: BinaryIO, id_column: str, gone: Collection[str]) -> int:
    kind, stamp = format_of(path), _stamp(old)
    if kind not in _CUTS:
        raise InputError("it is no file that can be rewritten; allowed: csv, jsonl and parquet")
    cut = _CUTS[kind](old, id_column, gone)
    if not cut.leaving:
        return 0
    with unfinished_file(_unnamed(path)) as (unfinished, new):
        cut.write(new)
        new.flush()
        _take_over(old, new)
        os.fsync(new.fileno())  # before the rename, or a power cut could leave an empty file
        # Pages in memory are given up, so that what is checked is what the disk has.
        os.posix_fadvise(new.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if not cut.is_whole(new):
            raise InputError("the new file does not read as it was to be written")
        if not leads_to(path, old) or _stamp(old) != stamp:
            raise InputError("another program changed it meanwhile; try again")
        unfinished.replace(path)
    return cut.leaving


def _stamp(file: BinaryIO) -> tuple[int, int]:
    """Return what changes whenever the open file is written."""
    status = os.fstat(file.fileno())
    return status.st_mtime_ns, status.st_size


def _unnamed(path: Path) -> Path:
    return path.with_name(path.name + ERASING)


def _take_over(old: BinaryIO, new: BinaryIO) -> None:
    """Give the new file the owner, group, access list and mode of the old one, as far as permitted."""
    status = os.fstat(old.fileno())
    mode = status.st_mode & 0o7777
    with suppress(PermissionError):
        os.fchown(new.fileno(), status.st_uid, -1)
    try:
        os.fchown(new.fileno(), -1, status.st_gid)
    except PermissionError:
        mode &= ~0o070  # rights of the old file's group are none of another group's
    os.fchmod(new.fileno(), mode)
    with suppress(OSError):  # not every file system has such attributes
        for name in os.listxattr(old.fileno()):
            os.setxattr(new.fileno(), name, os.getxattr(old.fileno(), name))
