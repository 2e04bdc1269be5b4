"""Named bytes, in a local folder or in an object store: all that modules need of a disk."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from fedsgt.errors import InputError
from fedsgt.store.folder import Folder
from fedsgt.store.names import check_name, check_prefix, is_name, reported


class Objects(Protocol):
    """Objects are replaced as a whole, and what has returned is durable. Names are relative posix paths."""

    def read(self, name: str) -> bytes:
        """The object's bytes; `KeyError` if there is no such object."""

    def write(self, name: str, data: bytes) -> None:
        """Makes or replaces the object."""

    def delete(self, name: str) -> None:
        """Removes the object; one that is not there is fine."""

    def names(self, prefix: str = "") -> list[str]:
        """All objects whose name starts so, in order."""

    def sweep(self, prefix: str = "") -> None:
        """Removes what interrupted writes of such objects left behind."""


@dataclass(frozen=True)
class Remote:
    """Objects under a URL that fsspec knows, such as `s3://bucket/run` or `memory://run`.

    Object stores replace an object in one step and have it durable when they answer. A file server that does
    not may leave a torn object behind, which reads as corrupt, as every module is checked by its hash.
    """

    url: str

    def __post_init__(self) -> None:
        scheme = self.url.partition("://")[0]
        with reported("open a store of kind", scheme, Exception):
            self._place()

    def read(self, name: str) -> bytes:
        """The object's bytes; `KeyError` if there is no such object."""
        files, path = self._at(name)
        with reported("read", path, Exception), suppress(FileNotFoundError):
            return bytes(files.cat_file(path))
        raise KeyError(name)

    def write(self, name: str, data: bytes) -> None:
        """Makes or replaces the object."""
        files, path = self._at(name)
        with reported("write", path, Exception):
            files.pipe_file(path, data)

    def delete(self, name: str) -> None:
        """Removes the object; one that is not there is fine."""
        files, path = self._at(name)
        with reported("delete", path, Exception), suppress(FileNotFoundError):
            files.rm_file(path)

    def names(self, prefix: str = "") -> list[str]:
        """All objects whose name starts so, in order."""
        check_prefix(prefix)
        files, root = self._place()
        with reported("list", root, Exception):
            # Other processes write too: a listing from before is worth nothing.
            files.invalidate_cache()
            found = files.find("/".join([root, *prefix.split("/")[:-1]]))
        names = (path.removeprefix(f"{root}/") for path in found)
        return sorted(name for name in names if name.startswith(prefix) and is_name(name))

    def sweep(self, prefix: str = "") -> None:
        """Nothing to do: an upload that did not finish is no object."""
        check_prefix(prefix)

    def _at(self, name: str) -> tuple[Any, str]:
        check_name(name)
        files, root = self._place()
        return files, f"{root}/{name}"

    def _place(self) -> tuple[Any, str]:
        # Asked for each time, and kept by fsspec for each process: nothing of a connection is ever pickled.
        # Imported by name, as the library is needed for remote stores only and has no types.
        files, root = import_module("fsspec.core").url_to_fs(self.url)
        return files, root.rstrip("/")


def open_objects(place: str | Path) -> Objects:
    """The objects of a folder, or of a URL."""
    text = str(place)
    if not text:
        raise InputError("the place of a store is empty; allowed: a folder, or a URL such as s3://bucket/run")
    if isinstance(place, str) and "://" in place and not place.startswith("file://"):
        return Remote(place)
    return Folder(Path(text.removeprefix("file://")))
