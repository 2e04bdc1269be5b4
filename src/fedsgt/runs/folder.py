"""A run's folder: opening, creating and locking it, and replacing its description."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedsgt.config import Config, load, to_toml
from fedsgt.data import Client, Record
from fedsgt.data.sources.parts import is_place
from fedsgt.errors import InputError
from fedsgt.files.durable import sync_folder
from fedsgt.files.locks import Busy, FileLock, only_holder
from fedsgt.files.removal import remove_tree
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import CorruptLedger, Ledger, file_url
from fedsgt.runs.artefacts import (
    CACHE,
    CERTIFICATES,
    CONFIG,
    DESCRIPTION,
    EXPORTS,
    LEDGER,
    LOCK,
    NEXT_DESCRIPTION,
    STORE_LOCK,
)
from fedsgt.runs.dependencies import Dead
from fedsgt.runs.description import FORMAT, RESTORE, Description
from fedsgt.runs.description_files import (
    description_stamps,
    find_description,
    keys_in,
    read_description,
)
from fedsgt.runs.destruction import check_links, destroy, sweep
from fedsgt.runs.kept_records import kept_in, located, unlocated, write_kept
from fedsgt.runs.kept_settings import changed_keys, with_kept_settings
from fedsgt.runs.register import Register, with_registers
from fedsgt.runs.state import Live, LiveState
from fedsgt.runs.statistics import discard_outdated
from fedsgt.runs.work import sweep_work
from fedsgt.store import Folder, Manifest, Modules, open_objects
from fedsgt.words import one_line

# A run's folder and a position in its ledger.
PINNED = re.compile(r"(.+)@(\d+)")


@dataclass(frozen=True)
class RunFolder:
    """An existing run."""

    path: Path
    config: Config
    description: Description
    """Description when the run was opened; `live` has the one that is in force."""
    restoring: bool = field(default=False, repr=False, compare=False)
    """Whether the run may be older than it has been; only a replay of deletions may open such a run."""

    @cached_property
    def modules(self) -> Modules:
        """Store of the run's modules: in its folder, or in the object store that the configuration names."""
        url = self.config.store.url
        return Modules(Folder(self.path) if url is None else open_objects(url))

    @cached_property
    def ledger(self) -> Ledger:
        """Ledger of the run, checked to be as new as it has ever been."""
        ledger = Ledger.open(ledger_url(self.path, self.config), self.description.id)
        if not self.restoring:
            ledger.high_water.check()
            self._check_certificates(ledger)
        return ledger

    def _check_certificates(self, ledger: Ledger) -> None:
        # A hash chain does not show that its end was cut off; a certificate signed since then does.
        names = (path.stem for path in (self.path / CERTIFICATES).glob("*.json"))
        signed = max((int(name) for name in names if name.isdecimal()), default=0)
        if signed >= ledger.head():
            raise CorruptLedger(
                f"{self.path}: the ledger ends at {ledger.head()}, but a certificate of request no. "
                f"{signed} is there; restore the ledger from a backup, then run fedsgt replay {self.path}"
            )

    @cached_property
    def _state(self) -> LiveState:
        # The functions do not hold `self`: a cycle would keep the ledger open after the last use of the
        # folder.
        path = self.path
        return LiveState(
            self.ledger, lambda code: find_description(path, code), lambda: description_stamps(path), path
        )

    def live(self) -> Live:
        """Return the state of the run at this moment; ask again before every use."""
        if not self.restoring:
            self.ledger.high_water.check()
        return self._state.live()

    def present(self) -> frozenset[str]:
        """Return the keys of the modules that have a manifest; their content is checked when it is read."""
        names = self.modules.objects.names("modules/")
        return frozenset(name.split("/")[1] for name in names if name.endswith("/manifest.json"))

    @property
    def writable(self) -> bool:
        """Whether this user may write in the folder: not on a read-only mount or in an auditor's copy."""
        return os.access(self.path, os.W_OK | os.X_OK)

    def check_writable(self) -> None:
        """Raise if the run can only be read, before anything is done that would write."""
        if not self.writable:
            raise InputError(f"{self.path}: this user can only read this run; nothing was changed")

    @cached_property
    def readings(self) -> dict[tuple[str, bool], tuple[object, Manifest]]:
        """What `runs.health` has read of modules, so that it reads them again only if they change."""
        return {}

    @cached_property
    def _store_lock(self) -> FileLock:
        return FileLock(self.path / STORE_LOCK)

    @contextmanager
    def publishing(self) -> Iterator[Live]:
        """Hold the store's lock, under which everything that depends on data is written or destroyed.

        Files of modules that are live at the beginning may be written until the end: a deletion that comes
        meanwhile waits for the lock, and then destroys them.
        """
        with self._store_lock.held():
            self._finish_description()
            yield self.live()

    def describe_anew(self, description: Description) -> None:
        """Replace the run's description, and destroy what only the old one knows.

        The ledger's entry puts the new description in force. A process that is killed before leaves the old
        one in force; after it, the next writer does the rest.
        """
        with self.publishing():
            check_links(self)
            Folder(self.path).write(NEXT_DESCRIPTION, description.to_text().encode())
            with self.ledger.writing() as writer:
                writer.append(Kind.REBUILT, {"description": description.hash(), "as_of": description.as_of})
            self._finish_description()

    def _finish_description(self) -> None:
        """Finish a change of the description that is in the ledger, or forget one that is not.

        The caller must hold the store's lock.
        """
        file = self.path / NEXT_DESCRIPTION
        if not file.exists():
            return
        live, code = self._state.look()
        if hashlib.sha256(file.read_bytes()).hexdigest() != code:
            file.unlink()
        else:
            # Before the old description goes: a deletion that comes later would not find modules that no
            # description names.
            dropped = keys_in(self.path / DESCRIPTION) - set(live.description.keys.values())
            destroy(self, Dead.at(live, also=dropped))
            discard_outdated(self, live)
            os.replace(file, self.path / DESCRIPTION)
        sync_folder(self.path)

    def finish_description(self) -> None:
        """Finish a change of the description that a killed process left, unless somebody is at it."""
        if (self.path / NEXT_DESCRIPTION).exists() and self.writable:
            try:
                with only_holder(self.path / STORE_LOCK, self.path):
                    self._finish_description()
            except Busy:  # whoever holds the lock finishes it
                return

    @property
    def cache(self) -> Path:
        """Folder of the activations: outputs of the frozen lower layers, slice by slice."""
        return self.path / CACHE

    def sweep(self) -> None:
        """Remove files that killed writers left, and files that the described run does not need."""
        with self._store_lock.held():
            self.sweep_exports()
        sweep(self)

    def sweep_exports(self) -> None:
        """Remove exports that killed processes left half written; the caller must hold the store's lock."""
        # Exports are written under that lock, so whatever has a dotted name now is nobody's work.
        # A link leads to somebody else's folder, and of other dotted names nobody knows whose they are.
        place = self.path / EXPORTS
        for left in () if place.is_symlink() else place.glob(".*"):
            if re.fullmatch(r"\..+\.[0-9a-f]{32}", left.name):
                remove_tree(left)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run's lock: one process at a time trains or rebuilds a run."""
        self.check_writable()
        with only_holder(self.path / LOCK, self.path):
            yield


def open_run(path: Path, *, restoring: bool = False) -> RunFolder:
    """Open the run in this folder; the error says what is missing, or why it must not be used.

    A run that is older than it has been is refused, unless it is opened for `restoring`, and so is one whose
    description is not the one in its ledger.
    """
    folder = replace(read_run(path), restoring=restoring)
    described = folder.live().description
    if described is not folder.description:
        folder = replace(folder, description=described)
    if not restoring:
        folder.ledger.high_water.rise_unless_refused()
    folder.finish_description()
    if folder.writable:
        with suppress(OSError):  # such as another user's folder, which the audit names
            sweep_work(path)
    if described.format < FORMAT and folder.writable and not restoring:
        # Imported here: reading records imports this module.
        from fedsgt.runs.migration import migrate

        migrate(folder)
        folder = replace(folder, description=folder.live().description)
    return folder


def read_run(path: Path) -> RunFolder:
    """Read the run in this folder without a look at its ledger; the error says what is missing."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: a file, where a run's folder is expected")
    if not path.is_dir():
        raise InputError(f"{path}: no such run; `fedsgt runs` lists those there are")
    for names in ((CONFIG,), (DESCRIPTION, NEXT_DESCRIPTION)):
        if not any((path / name).is_file() for name in names):
            # Its other files are there: the folder was a run, and can be one again.
            damaged = (path / LEDGER).is_file() or (path / CONFIG).is_file()
            advice = f"restore {names[0]} from a backup" if damaged else "`fedsgt runs` lists those there are"
            raise InputError(f"{path}: not a run: it has no {names[0]}; {advice}; nothing was changed")
    return RunFolder(path, located(_read_config(path / CONFIG), path), read_description(path))


def _read_config(path: Path) -> Config:
    """Read a run's settings, which say all that its data told when it was made."""
    try:
        config = load(path)
    except InputError as error:
        raise InputError(f"{one_line(error)}; {RESTORE}") from None
    found: dict[str, Any] = {}
    if "test_share" not in config.data.model_fields_set:
        # Runs of earlier versions had a test part, and keep none of the training records for testing.
        found["data"] = config.data.model_copy(update={"test_share": 0.0})
    if "heads" not in config.model_fields_set:  # they have no statistics either
        found["heads"] = config.heads.model_copy(update={"solve": False})
    return config.model_copy(update=found) if found else config


def ledger_url(path: Path, config: Config) -> str:
    """Return the URL of the run's ledger: a file in its folder unless the configuration names a database."""
    return config.unlearning.ledger or file_url((path / LEDGER).absolute())


def check_config(path: Path, config: Config) -> RunFolder | None:
    """Return the run that is in the folder if this configuration may continue it; None if there is none."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return None
    if path.is_dir() and not any((path / name).exists() for name in (CONFIG, DESCRIPTION, LEDGER)):
        raise InputError(f"{path}: is no run, and has other files in it; give another folder with -o")
    existing = open_run(path)
    changed = _changed(existing, config)
    if changed:
        # The folder may have the only copy of its records.
        remove = "" if kept_in(existing.config) is not None else ", or remove this one"
        raise InputError(
            f"{path}: holds a run of another configuration ({'; '.join(changed)}); "
            f"give another folder with -o{remove}"
        )
    return existing


def holds_something_else(path: Path, config: Config) -> bool:
    """Whether the folder holds anything but a run that this configuration may continue; nothing is opened."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return False
    try:
        return bool(_changed(read_run(path), anchored(config)))
    except InputError:  # no run, or one that this version cannot read
        return True


def _changed(existing: RunFolder, config: Config) -> list[str]:
    """Return the settings that are not those of the run."""
    return changed_keys(existing.config, with_kept_settings(config, existing.config))


def create_run(
    path: Path,
    config: Config,
    description: Description,
    registers: Mapping[int, Register] | None = None,
    kept: tuple[Mapping[int, Client], Sequence[Record]] | None = None,
) -> RunFolder:
    """Make a new run's folder; it appears with all its files, or not at all.

    `kept` has the clients and the test records that are to be kept in the folder.
    """
    with appear_whole(path) as temporary:
        if kept is not None:
            write_kept(temporary, *kept)
        described = with_registers(temporary, description, registers or {})
        named = described.model_copy(update={"id": secrets.token_hex(16)})
        files = Folder(temporary)
        files.write(CONFIG, to_toml(unlocated(config)).encode())
        files.write(DESCRIPTION, named.to_text().encode())
        Ledger.create(ledger_url(temporary, config), named.id, {"description": named.hash()}).close()
    return open_run(path)


@contextmanager
def appear_whole(path: Path) -> Iterator[Path]:
    """Yield an empty folder to be filled, which then gets its real name; after an error it is removed."""
    # Always the same name, so that the next attempt takes over what a killed one left.
    temporary = path.parent / f".{path.name}.new"
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        temporary.mkdir(parents=True, exist_ok=True)
        with only_holder(temporary / LOCK, path):
            try:
                _empty(temporary)
                yield temporary
                temporary.rename(path)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                with suppress(OSError):  # another run may be in one of them by now
                    for folder in made:
                        folder.rmdir()
                raise
        sync_folder(path.parent)
    except OSError as error:
        raise InputError(f"{path}: the run's folder cannot be made ({error.strerror})") from None


def _empty(temporary: Path) -> None:
    """Remove what a killed attempt left, but for the lock, which this process holds."""
    for left in temporary.iterdir():
        if left.name != LOCK:
            remove_tree(left)


def find_runs(folder: Path) -> list[Path]:
    """List the folders of the runs directly in this folder, by name."""
    if not folder.is_dir():
        return []
    shown = (path for path in sorted(folder.iterdir()) if not path.name.startswith("."))
    return [path for path in shown if (path / DESCRIPTION).is_file()]


def anchored(config: Config) -> Config:
    """Return the configuration with absolute local paths, so that the run works from any folder."""
    data, model = config.data, config.model
    found: dict[str, Any] = {"source": _in_full(data.source)}
    # A single word names a part of the source, also if a folder here is called the same.
    if data.test is not None and is_place(data.test):
        found["test"] = _in_full(data.test)
    found["erased"] = [_pinned(text) for text in data.erased]
    server = None if config.engine.server is None else _in_full(config.engine.server)
    return config.model_copy(
        update={
            "data": data.model_copy(update=found),
            "model": model.model_copy(update={"backbone": _in_full(model.backbone)}),
            "engine": config.engine.model_copy(update={"server": server}),
        }
    )


def _pinned(text: str) -> str:
    """Return another run with the present position of its ledger.

    Without the position, a later deletion there would change which records this run is made of.
    """
    if PINNED.fullmatch(text):
        return text
    path = Path(text).expanduser().resolve()
    return f"{path}@{open_run(path).live().position}"


def _in_full(text: str) -> str:
    # Names of the hub, and of what comes with the package, are no paths and stay as they are.
    path = Path(text).expanduser()
    return str(path.resolve()) if path.exists() else text
