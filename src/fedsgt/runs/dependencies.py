"""The files of a run, what each was made of, and whether that is dead."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fedsgt.files.durable import sync_folder
from fedsgt.runs.kept_records import holds_deleted
from fedsgt.runs.state import NOTHING_DELETED, DeletedData, Live
from fedsgt.store import Folder
from fedsgt.store.objects import Objects, is_name

if TYPE_CHECKING:  # only a type: the module of `RunFolder` imports this one
    from fedsgt.runs.folder import RunFolder


@dataclass(frozen=True)
class StoredFile:
    """One file in a run's folder, or one object of its store."""

    name: str
    """Path below the folder or the store, its parts joined by `/`."""
    root: Objects = field(repr=False)
    """Folder or store that holds it."""
    plain: bool = True
    """False for a symbolic link or a device."""
    elsewhere: bool = False
    """Whether it is in a store outside the run's folder, which may hold other people's files too."""

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.name.split("/"))

    @property
    def path(self) -> Path:
        """Place on the local disk; objects of a remote store have none."""
        assert isinstance(self.root, Folder)
        return self.root.root / self.name

    def read(self) -> bytes:
        """Return the content; nothing if it is gone or is no plain file."""
        # A link leads to somebody else's file, and reading a pipe may never end.
        if not self.plain:
            return b""
        if not isinstance(self.root, Folder):
            return self.root.read(self.name)
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return self.path.read_bytes()
        return b""

    def changed(self) -> float | None:
        """Return the time of the file's last change; None if it is gone, as a database's journal often is."""
        with suppress(FileNotFoundError):
            return self.path.lstat().st_mtime
        return None

    def is_empty(self) -> bool:
        """Whether this is a plain file without content; a file that is gone is not."""
        with suppress(FileNotFoundError):
            return self.plain and self.path.lstat().st_size == 0
        return False

    def remove(self, sync: bool = True) -> None:
        """Remove the file, or the link itself, and the folders that it leaves empty.

        Without `sync` the caller syncs the folders that are left, once for many files of this machine.
        """
        if not sync and isinstance(self.root, Folder):
            self.root.delete(self.name, sync=False)
            return
        if is_name(self.name):
            self.root.delete(self.name)
            return
        # Exports and folders put aside may have names that no object of a store can have.
        self.path.unlink(missing_ok=True)
        for folder in self.path.parents[: len(self.parts) - 1]:
            with suppress(OSError):  # the folder is not empty
                folder.rmdir()
        sync_existing(self.path.parent)


def sync_existing(folder: Path) -> None:
    """Make removals from the folder durable; if it was removed too, those from the folder above."""
    while not folder.is_dir():
        folder = folder.parent
    sync_folder(folder)


def stored_files(folder: RunFolder) -> list[StoredFile]:
    """List all files of the run's folder and all objects of its store; links are listed, never followed."""
    here, objects = Folder(folder.path), folder.modules.objects
    found = list(_files_in(here))
    if not isinstance(objects, Folder):
        found += [StoredFile(name, objects, elsewhere=True) for name in objects.names()]
    elif objects.root != here.root:
        found += _files_in(objects, elsewhere=True)
    return sorted(found, key=lambda file: file.name)


def local_links(folder: RunFolder) -> list[StoredFile]:
    """List the symbolic links in the run's folder, in its folders, and in a store on the same machine.

    Links inside the folder of one module, slice or export are not looked for.
    """
    here, objects = Folder(folder.path), folder.modules.objects
    roots = [(here, False)]
    if isinstance(objects, Folder) and objects.root != here.root:
        roots.append((objects, True))
    return [
        StoredFile(name, root, plain=False, elsewhere=elsewhere)
        for root, elsewhere in roots
        for name in _links_in(root.root)
    ]


def _links_in(place: Path, below: str = "") -> Iterator[str]:
    # Two levels only: every request waits for this, and a store has thousands of folders on the third.
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(place / below) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield f"{below}{entry.name}"
            elif not below and entry.is_dir(follow_symlinks=False):
                yield from _links_in(place, f"{entry.name}/")


def _files_in(root: Folder, below: str = "", elsewhere: bool = False) -> Iterator[StoredFile]:
    # `scandir` tells links without a look at each file, and a store has many thousands of files.
    # A folder that cannot be looked into is an error: it may hold anything, so it must not be passed over.
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(root.root / below) as entries:
        for entry in entries:
            name = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _files_in(root, f"{name}/", elsewhere)
            else:
                yield StoredFile(name, root, entry.is_file(follow_symlinks=False), elsewhere)


@dataclass(frozen=True)
class Nothing:
    """No dependence on any record's content."""

    words: str = "nothing"
    """Content of the file, in words."""


@dataclass(frozen=True)
class PartOfModule:
    """Dependence on one module: its own file, or one of its training."""

    key: str


@dataclass(frozen=True)
class FromModules:
    """Dependence on several modules; `keys` is None if the file does not name them."""

    keys: frozenset[str] | None


@dataclass(frozen=True)
class FromLines:
    """Dependence of each line on one module; None for a line that names no module."""

    keys: tuple[str | None, ...]


@dataclass(frozen=True)
class FromSlice:
    """Dependence on the records of one slice."""

    fingerprint: str


@dataclass(frozen=True)
class FromStatistic:
    """Dependence on one client's records and on a chain of modules."""

    key: str | None
    """Key of the last module of the chain; None if it is the bare backbone."""
    number: int
    """Number of the client in the run's description."""
    mark: str
    """Mark of the deletions that the records were without."""


@dataclass(frozen=True)
class FromRecords:
    """The records of one client, themselves."""

    number: int
    """Number of the client in the run's description."""
    path: Path


@dataclass(frozen=True)
class FromLiveModules:
    """Dependence on all modules live at a position of the ledger; None if the file does not name it."""

    position: int | None


@dataclass(frozen=True)
class FromTraining:
    """Dependence on all modules that were trained until the file last changed."""

    changed: float


MadeOf: TypeAlias = (
    Nothing
    | PartOfModule
    | FromModules
    | FromLines
    | FromSlice
    | FromStatistic
    | FromRecords
    | FromLiveModules
    | FromTraining
)


@dataclass(frozen=True)
class Dead:
    """Modules and slices that no file of a run may depend on any more, and those that are live."""

    modules: frozenset[str]
    """Keys of the run's dead modules."""
    live_modules: frozenset[str]
    live_slices: frozenset[str]
    hit_slices: frozenset[str]
    """Fingerprints of the slices that lost records."""
    last_request: int
    """Position of the last deletion request in the ledger."""
    records: Mapping[int, DeletedData] = field(default_factory=dict)
    """Deleted records, by the number of the client."""
    clients: int | None = None
    """Number of clients of the run; None if it is not known."""

    asking: frozenset[int] | None = None
    """Numbers of the clients with a request that is not completed; None if that is not known."""

    def is_client(self, number: int) -> bool:
        """Whether the run has a client of this number."""
        return self.clients is None or number < self.clients

    @classmethod
    def at(cls, live: Live, also: Iterable[str] = ()) -> Dead:
        """Return the dead parts of the state `live`; `also` has further keys of dead modules."""
        description = live.description
        slices = {fingerprint for client in description.clients for fingerprint in client.slices}
        hit = frozenset(live.hit_slices())
        return cls(
            modules=frozenset(entry.key for entry in live.dead_modules()).union(also),
            live_modules=frozenset(entry.key for entry in live.modules()),
            live_slices=frozenset(slices - hit),
            hit_slices=hit,
            last_request=live.last_request,
            records=live.deleted,
            clients=len(description.clients),
            asking=frozenset(
                part["number"]
                for request in live.requests
                if request.position not in live.finished
                for part in request.body["parts"]
            ),
        )

    def reaches(self, made_of: MadeOf) -> bool:
        """Whether a file with this dependence depends on anything dead."""
        dead = False
        match made_of:
            case PartOfModule(key):
                # Several runs may share an object store: a module that this run does not know stays.
                dead = key in self.modules
            case FromTraining() | FromModules(None):
                dead = bool(self.modules)
            case FromModules(keys) if keys is not None:
                dead = not keys <= self.live_modules
            case FromLines(keys):
                dead = not self.live_modules.issuperset(keys)
            case FromSlice(fingerprint):
                dead = fingerprint not in self.live_slices
            case FromStatistic(key, number, mark):
                without = self.records.get(number, NOTHING_DELETED).mark
                chain_dead = key is not None and key not in self.live_modules
                dead = chain_dead or mark != without or not self.is_client(number)
            case FromRecords(number, path):
                # The records of nobody are those of a client whose coming back was cut short.
                # An unreadable file holds up the requests of its own client only.
                unread = self.asking is None or number in self.asking
                held = number in self.records and holds_deleted(path, self.records[number], unread)
                dead = held or not self.is_client(number)
            case FromLiveModules(position):
                dead = position is None or position < self.last_request
        return dead
