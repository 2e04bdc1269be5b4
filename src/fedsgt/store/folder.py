"""Objects as files of a local folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedsgt.files.durable import finished_path, remove_abandoned, replace_file, sync_folder
from fedsgt.store.objects import check_name, check_prefix, is_name, reported


@dataclass(frozen=True)
class Folder:
    """Objects under one folder, which the first write makes; what has returned survives a power cut."""

    root: Path

    def __post_init__(self) -> None:
        # Worker processes may have another working directory.
        object.__setattr__(self, "root", Path(self.root).absolute())

    def path(self, name: str) -> Path:
        """Return the path of the object, whether it is there or not."""
        check_name(name)
        return self.root / name

    def read(self, name: str) -> bytes:
        """Return the object's bytes; raise `KeyError` if there is no such object."""
        path = self.path(name)
        with reported("read", path):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise KeyError(name) from None

    def write(self, name: str, data: bytes) -> None:
        """Make or replace the object; a reader, also one after a crash, sees the old or the new bytes."""
        path = self.path(name)
        with reported("write", path):
            replace_file(path, data)
            self._sync_upwards(path.parent)

    def delete(self, name: str, sync: bool = True) -> None:
        """Remove the object and the folders that it leaves empty; one that is not there is fine.

        Without `sync` the removal is durable only once the caller has synced the folders that are left.
        """
        path = self.path(name)
        with reported("delete", path):
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                os.unlink(path)
            # Synced even if the file was gone: the process that removed it may not have synced its folder.
            self._prune(path.parent, sync)

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of all objects that start with `prefix`, in order."""
        check_prefix(prefix)
        with reported("list", self.root):
            found = (path.relative_to(self.root).as_posix() for path in self._files(prefix))
            return sorted(name for name in found if name.startswith(prefix) and is_name(name))

    def sweep(self, prefix: str = "") -> None:
        """Remove what killed writers of such objects left behind; writers at work are not disturbed."""
        check_prefix(prefix)
        with reported("clean up", self.root):
            # All files are listed before any is removed: the walk must not meet folders that vanish under it.
            for path in list(self._files(prefix)):
                finished = finished_path(path)
                if finished is None:
                    continue
                name = finished.relative_to(self.root).as_posix()
                if name.startswith(prefix) and remove_abandoned(path):
                    self._prune(path.parent)

    def _files(self, prefix: str) -> Iterator[Path]:
        start = self.root / prefix.rpartition("/")[0]
        for folder, _, files in os.walk(start, onerror=_raise_unless_gone):
            yield from (Path(folder, file) for file in files)

    def _sync_upwards(self, folder: Path) -> None:
        # Up to the root, not only folders made here: the maker of the others may not have synced them yet.
        for place in (folder, *folder.parents):
            sync_folder(place)
            if place == self.root:
                return

    def _prune(self, folder: Path, sync: bool = True) -> None:
        while folder != self.root and _remove_if_empty(folder):
            folder = folder.parent
        # Removals further down are durable once the lowest folder that is left is synced.
        if sync:
            sync_folder(folder)


def _remove_if_empty(folder: Path) -> bool:
    """Remove the folder if it is empty; return whether there is no such folder now."""
    try:
        os.rmdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _raise_unless_gone(error: OSError) -> None:
    # A deletion elsewhere may remove a folder during the walk.
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
