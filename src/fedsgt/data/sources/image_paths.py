"""Images that a file of records names by their paths."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fedsgt.errors import InputError


def read_image(text: str, folder: Path, where: str) -> bytes:
    """Return the bytes of the image at this path, which starts at the folder of the file that names it.

    The image must lie in that folder or below it: a file of records that comes from elsewhere must not make
    this machine read others of its files.
    """
    base = os.path.abspath(folder)
    path = os.path.normpath(os.path.join(base, text))
    if not text or "\0" in text or os.path.commonpath([base, path]) != base:
        raise InputError(
            f"{where}: {_shown(text)} is no path of an image in the folder of the file, or below it; "
            "write paths that start at that folder, and put the file where its images are below it"
        )
    return image_bytes(path, f"{where}: its image {_shown(text)}")


def image_bytes(path: str, where: str) -> bytes:
    """Return the bytes of an image file; anything that is no plain file, such as a pipe, is an error."""
    try:
        # Opened without waiting: a pipe that nobody writes to would hold up the run for good.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{where} is no file")
            return file.read()
    except FileNotFoundError:
        raise InputError(f"{where} does not exist") from None
    except OSError as error:
        raise InputError(f"{where} cannot be read ({error.strerror})") from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}...")
