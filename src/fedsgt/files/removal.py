"""Removal of folders that other processes may still write into."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

from fedsgt.files.durable import sync_folder


def remove_tree(place: Path) -> None:
    """Remove a file, a link or a whole folder without following links; one that is not there is fine."""
    # Another process may write or remove files here meanwhile, so this goes on until nothing is left.
    while place.is_dir() and not place.is_symlink():
        with suppress(FileNotFoundError, NotADirectoryError):
            for inside in list(place.iterdir()):
                remove_tree(inside)
            try:
                place.rmdir()
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
    with suppress(FileNotFoundError, NotADirectoryError):
        place.unlink()


def bury_folder(place: Path) -> None:
    """Destroy a folder and put an empty file in its place.

    The file keeps a process that writes into the folder from making it again.
    """
    aside = place.with_name(f".{place.name}")
    while not (place.is_file() and not place.is_symlink() and place.stat().st_size == 0):
        remove_tree(aside)
        with suppress(FileExistsError):
            place.parent.mkdir()
        # Moved away first: a folder that a process writes into is never empty for long.
        with suppress(FileNotFoundError):
            place.rename(aside)
        # The process has just made the folder again, or has removed an empty one above it.
        with suppress(FileExistsError, FileNotFoundError):
            place.touch(exist_ok=False)
    remove_tree(aside)
    sync_folder(place.parent)
