"""Remove the files of deleted images from a folder of images; no link is followed."""

import errno
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fedsgt.errors import InputError

_LINKED = "images in a folder that is a link are not removed"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass
class Removal:
    """How many images were removed, and how many could not be."""

    removed: int = 0
    other_links: int = 0
    """Other names (hard links) of the removed files: their content is still there under these."""
    left: int = 0
    reason: str = ""
    """Why the first of these was left, without its name: an image's path is its id."""


def remove_images(folder: Path, ids: Collection[str]) -> Removal:
    """Remove the images with these ids, their paths in the folder, for good; one that is gone is fine.

    An image that is a link, or in a folder that is one, is left: it may be a file of somebody else.
    """
    found, changed = Removal(), set[tuple[str, ...]]()
    for record in sorted(ids):
        above = tuple(record.split("/")[:-1])
        try:
            with suppress(FileNotFoundError):  # whoever removed it did the same work
                found.other_links += _remove(folder, above, record.split("/")[-1])
                found.removed += 1
                changed.add(above)
        except (OSError, InputError) as error:
            linked = isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENOTDIR)
            told = (isinstance(error, OSError) and error.strerror) or str(error)
            found.left += 1
            found.reason = found.reason or (_LINKED if linked else told)
    for above in changed:
        with suppress(FileNotFoundError), _opened(folder, above) as handle:
            os.fsync(handle)  # or a power cut could bring the names back
    return found


def _remove(folder: Path, above: Sequence[str], name: str) -> int:
    """Remove one image, and return how many other names its file has."""
    # No id that was read from the folder has such a part, which could lead out of it.
    if any(part in ("", ".", "..") or "\0" in part for part in (*above, name)):
        raise InputError("an id that is no path in the folder")
    with _opened(folder, above) as handle:
        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise InputError("links, and what else is no plain file, are not removed")
        os.unlink(name, dir_fd=handle)
    return status.st_nlink - 1


@contextmanager
def _opened(folder: Path, names: Sequence[str]) -> Iterator[int]:
    """Open a folder below the given one, name by name, so that no link can lead elsewhere."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            inner = os.open(name, _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)
