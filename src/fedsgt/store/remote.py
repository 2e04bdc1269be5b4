"""Objects at a URL, and the choice between a URL and a local folder."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from fedsgt.errors import InputError
from fedsgt.store.folder import Folder
from fedsgt.store.objects import Objects, StoreError, check_name, check_prefix, is_name, reported
from fedsgt.words import one_line


@dataclass(frozen=True)
class Remote:
    """Objects under a URL that fsspec knows, such as `s3://bucket/run` or `memory://run`.

    Object stores replace an object in one step and have it on disk when they answer. A file server that does
    not may leave a torn object behind, which reads as corrupt, as every module is checked by its hash.
    """

    url: str

    def __post_init__(self) -> None:
        # The scheme only: a URL may hold a password, which must not get into a message.
        scheme = self.url.partition("://")[0]
        try:
            self._place()
        except Exception as error:  # each kind of store has errors of its own
            raise StoreError(
                f"store.url: a store of kind {scheme!r} cannot be opened ({one_line(error)}); give a folder, "
                "or a URL such as s3://bucket/run whose kind is installed"
            ) from None

    def read(self, name: str) -> bytes:
        """Return the object's bytes; raise `KeyError` if there is no such object."""
        files, path = self._at(name)
        with reported("read", path, Exception), suppress(FileNotFoundError):
            return bytes(files.cat_file(path))
        raise KeyError(name)

    def write(self, name: str, data: bytes) -> None:
        """Make or replace the object."""
        files, path = self._at(name)
        with reported("write", path, Exception):
            files.pipe_file(path, data)

    def delete(self, name: str) -> None:
        """Remove the object; one that is not there is fine."""
        files, path = self._at(name)
        with reported("delete", path, Exception), suppress(FileNotFoundError):
            files.rm_file(path)

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of all objects that start with `prefix`, in order."""
        check_prefix(prefix)
        files, root = self._place()
        with reported("list", root, Exception):
            # fsspec remembers listings, but other processes write here too.
            files.invalidate_cache()
            found = files.find("/".join([root, *prefix.split("/")[:-1]]))
        names = (path.removeprefix(f"{root}/") for path in found)
        return sorted(name for name in names if name.startswith(prefix) and is_name(name))

    def sweep(self, prefix: str = "") -> None:
        """Do nothing: an upload that did not finish is no object."""
        check_prefix(prefix)

    def _at(self, name: str) -> tuple[Any, str]:
        check_name(name)
        files, root = self._place()
        return files, f"{root}/{name}"

    def _place(self) -> tuple[Any, str]:
        # Asked for each time, and kept by fsspec for each process: no connection is ever pickled.
        # Imported by name, as the library is needed for remote stores only and has no types.
        files, root = import_module("fsspec.core").url_to_fs(self.url)
        return files, root.rstrip("/")


def open_objects(place: str | Path) -> Objects:
    """Return the objects of a folder or of a URL."""
    text = str(place)
    if not text:
        raise InputError("the place of a store is empty; allowed: a folder, or a URL such as s3://bucket/run")
    # fsspec's own local files are neither synced nor replaced in one step, so `file://` is a folder of ours.
    if isinstance(place, str) and "://" in place and not place.startswith("file://"):
        return Remote(place)
    return Folder(Path(text.removeprefix("file://")))
