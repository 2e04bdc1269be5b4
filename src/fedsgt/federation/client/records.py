"""Records of a client on its own machine: their slices, and the withdrawals among them.

Ids and salt stay on this machine. Others see hashes of ids under the salt, which nobody else has.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedsgt.data import ROW, Client, Columns, Record, load_dataset, record_hash
from fedsgt.data.fingerprints import check_salt
from fedsgt.data.sources import FORMATS, read_names
from fedsgt.data.sources.erasure import erase_records, images_kept, planned_action, why_kept
from fedsgt.data.sources.files import format_of, training_files
from fedsgt.errors import InputError, ShareableError
from fedsgt.federation.settings import ClientSettings
from fedsgt.files.durable import read_limited
from fedsgt.files.encoding import frames
from fedsgt.files.formats import check_format
from fedsgt.runs.artefacts import bury_activations
from fedsgt.store import Folder
from fedsgt.words import first_problem

WITHDRAWN, ENROLMENTS, REGISTERS = "state/withdrawn.json", "state/enrolments", "state/registers"
MAX_SALT_BYTES = 4096
# Withdrawn records are hashed under no client's name, so that they stay withdrawn if the client is renamed.
NOBODY = ""

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# The form is checked, because an id comes from the server and becomes a part of file names.
RunId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class StateFile(BaseModel):
    """A file of the client's state; files of earlier versions may lack the format."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal[1] = 1


class Enrolment(StateFile):
    """A run that the client has taken part in, and the name that it had there."""

    run: RunId
    name: str = Field(min_length=1)
    slices: int = Field(ge=1)
    labels: int = Field(ge=2)


class RegisteredIds(StateFile):
    """Register of a run: salted hashes of the ids that the client took part with (definition 12)."""

    slices: list[list[Hash]]
    """Hashes of each slice, sorted."""

    @cached_property
    def hashes(self) -> frozenset[str]:
        """Hashes of all slices."""
        return frozenset().union(*self.slices)


class Withdrawn(StateFile):
    """Salted hashes of withdrawn records: withdrawn from every run, or from single ones."""

    everywhere: list[Hash] = []
    runs: dict[RunId, list[Hash]] = {}

    def of(self, run: str | None) -> frozenset[str]:
        """Return the hashes withdrawn from one run; if `run` is None, those withdrawn from any."""
        chosen = self.runs.values() if run is None else [self.runs.get(run, [])]
        return frozenset(self.everywhere).union(*chosen)

    def with_more(self, hashes: Iterable[str], run: str | None) -> Withdrawn:
        """Return this with more hashes withdrawn from one run, or from every run if `run` is None."""
        if run is None:
            return self.model_copy(update={"everywhere": sorted({*self.everywhere, *hashes})})
        known = self.runs.get(run, [])
        return self.model_copy(update={"runs": {**self.runs, run: sorted({*known, *hashes})}})


class UnreadableSource(InputError):
    """The client's source cannot be read: no training is possible, but registered ids can be withdrawn."""


Form = TypeVar("Form", bound=StateFile)


class ClientRecords:
    """The records of a client's source without those that it has withdrawn."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.files = Folder(settings.folder)

    @cached_property
    def salt(self) -> bytes:
        """Secret of the client, read from its file."""
        salt = read_limited(self.settings.salt, MAX_SALT_BYTES, private=True)
        try:
            check_salt(salt)
        except InputError as error:
            raise InputError(f"{self.settings.salt}: {error}") from None
        return salt

    @cached_property
    def slicing_seed(self) -> str:
        """Seed of the slicing; secret, so that nobody else can tell in which slice an id is."""
        return hashlib.sha256(frames("fedsgt.slicing.1", self.salt)).hexdigest()

    def client(self, name: str, slices: int, labels: int, run: str | None = None) -> Client:
        """Return this client as it takes part in a run under this name."""
        return Client(name, self.records(labels, run), slices, self.slicing_seed, self.salt)

    def enrolled(self, enrolment: Enrolment) -> Client:
        """Return this client as it takes part in a run that it has enrolled in."""
        return self.client(enrolment.name, enrolment.slices, enrolment.labels, enrolment.run)

    def without_records(self, enrolment: Enrolment) -> Client:
        """Return the enrolled client without its records: enough to tell an id's slice and its hash."""
        return Client(enrolment.name, (), enrolment.slices, self.slicing_seed, self.salt)

    def records(self, labels: int, run: str | None = None) -> tuple[Record, ...]:
        """Return the records for this run; without one, those that are withdrawn from no run."""
        register = self.registered(run) if run is not None else None
        return tuple(
            record
            for record in self._present(labels, run)
            # Rows that came into the file later are not part of the run.
            if register is None or self.hash_of(record.id) in register.hashes
        )

    def _present(self, labels: int, run: str | None) -> list[Record]:
        """Return the records in the source that are not withdrawn, registered or not."""
        data, gone = self.settings.data, self.withdrawn(run)
        try:
            found = load_dataset(
                data.source, self._columns(), labels=labels, label_names=data.label_names
            ).records
        except (InputError, OSError) as error:
            raise UnreadableSource(str(error)) from error
        return [record for record in found if self.hash_of(record.id) not in gone]

    def registered(self, run: str) -> RegisteredIds | None:
        """Return what the client registered with the run; None before it has enrolled in it."""
        name = f"{REGISTERS}/{run}.json"
        try:
            return self.read(name, RegisteredIds)
        except KeyError:
            enrolment = next((entry for entry in self.enrolments() if entry.run == run), None)
            # An enrolment of an earlier version gets its register when it is first used.
            return None if enrolment is None else self._register(enrolment)

    def _register(self, enrolment: Enrolment) -> RegisteredIds:
        present = self._present(enrolment.labels, enrolment.run)
        client = Client(enrolment.name, tuple(present), enrolment.slices, self.slicing_seed, self.salt)
        found = RegisteredIds(
            slices=[sorted(self.hash_of(record.id) for record in part) for part in client.cut()]
        )
        self.files.write(f"{REGISTERS}/{enrolment.run}.json", found.model_dump_json(indent=1).encode())
        return found

    def remaining(self, run: str) -> list[frozenset[str]]:
        """Return the hashes registered in each slice and not withdrawn, whether in the source or not."""
        register, gone = self.registered(run), self.withdrawn(run)
        return [frozenset(part) - gone for part in register.slices] if register else []

    def holds(self, run: str, record: str) -> bool:
        """Whether the run has learnt from this record, and it is not withdrawn from it."""
        register, code = self.registered(run), self.hash_of(record)
        return register is not None and code in register.hashes and code not in self.withdrawn(run)

    def hash_of(self, record: str) -> str:
        """Return the hash by which a withdrawn record is remembered."""
        return record_hash(self.salt, NOBODY, record)

    def withdrawn(self, run: str | None = None) -> frozenset[str]:
        """Return the hashes of records withdrawn from this run; if `run` is None, from any."""
        return self._withdrawn().of(run)

    def withdraw(self, hashes: Collection[str], stale: Iterable[str], run: str | None = None) -> str:
        """Leave these records out from now on and remove their traces; doing it twice changes nothing.

        Return in words what happened to the client's file. `stale` has the fingerprints of the slices that
        they were in. Records that are withdrawn from one run alone stay in the file, for the other runs.
        """
        # The withdrawal is noted before anything is removed: after a crash the records are left out all the
        # same.
        before = self._withdrawn()
        after = before.with_more(hashes, run)
        if after != before:
            self.files.write(WITHDRAWN, after.model_dump_json(indent=1).encode())
        for fingerprint in stale:
            bury_activations(self.cache, fingerprint)
        return self._erase(run)

    def stale(self, hashes: Collection[str], run: str | None = None) -> list[str]:
        """Return the fingerprints of slices that change if the records with these hashes go.

        A slice that another run still learns from, under the same fingerprint, is not among them. If the
        source cannot be read, no fingerprint is known, and everything in the cache is among them.
        """
        found, kept, known = set[str](), set[str](), set[str]()
        for enrolment in self.enrolments():
            try:
                fingerprints = self.enrolled(enrolment).fingerprints()
            except UnreadableSource:
                continue
            known.update(fingerprints)
            if run in (None, enrolment.run):
                parts = self.remaining(enrolment.run)
                hit = [index for index, part in enumerate(parts) if not part.isdisjoint(hashes)]
                found.update(fingerprints[index] for index in hit)
            else:
                kept.update(fingerprints)
        # If a record left the file before, its activations lie under a fingerprint that no slice has now.
        cached = os.listdir(self.cache) if self.cache.is_dir() else []
        found.update(name for name in cached if re.fullmatch(r"[0-9a-f]{64}", name) and name not in known)
        return sorted(found - kept)

    def enrol(self, enrolment: Enrolment) -> None:
        """Remember the run, so that withdrawals reach it; records withdrawn earlier stay out of it."""
        known = {entry.run: entry for entry in self.enrolments()}
        if known.get(enrolment.run, enrolment) != enrolment:
            raise ShareableError("the run has other numbers of slices or labels than when it took part first")
        if enrolment.run in known:
            return
        before = self._withdrawn()
        # A new run must not learn from records that were withdrawn from some other run only, either.
        elsewhere = before.of(None) - set(before.everywhere)
        if elsewhere:
            after = before.with_more(elsewhere, enrolment.run)
            self.files.write(WITHDRAWN, after.model_dump_json(indent=1).encode())
        self._register(enrolment)
        # The enrolment comes last: a run that is known here must already be without what was withdrawn.
        self.files.write(f"{ENROLMENTS}/{enrolment.run}.json", enrolment.model_dump_json().encode())

    def enrolments(self) -> list[Enrolment]:
        """Return the runs that may have learnt from these records."""
        names = self.files.names(f"{ENROLMENTS}/")
        return [self.read(name, Enrolment) for name in names if name.endswith(".json")]

    def read(self, name: str, form: type[Form]) -> Form:
        """Read a file of the client's state; raise `KeyError` if it is not there."""
        data, where = self.files.read(name), self.files.path(name)
        with suppress(json.JSONDecodeError, UnicodeDecodeError):  # what is no JSON is told below
            check_format(json.loads(data), form.model_fields["format"].default, where)
        try:
            return form.model_validate_json(data)
        except ValidationError as error:
            problem = first_problem(error, "the whole")
            raise InputError(
                f"{self.files.path(name)}: damaged ({problem}); restore it from a backup"
            ) from None

    @property
    def cache(self) -> Path:
        """Folder for outputs of the frozen lower layers, with a folder for each slice's fingerprint."""
        return self.settings.folder / "cache"

    def _file(self) -> Path | None:
        """Return the local file or folder with the client's records; None if there is none to be seen."""
        try:
            return training_files(self.settings.data.source)
        except OSError:  # a folder above it may not be entered
            return None

    def told_of_file(self, run: str | None = None) -> str:
        """Return in words what a withdrawal does to the client's own file or folder (definition 13)."""
        path, reason = self._file(), self._why_left(run)
        if path is None or reason is not None:
            return f"{'the source' if path is None else path.name}: not changed, {reason}"
        if planned_action(path) == "removed":
            return f"{path.name}: the withdrawn images are removed"
        columns = self._columns()
        images = images_kept(path, columns.inputs if columns.images else ())
        return f"{path.name}: rewritten without the withdrawn rows" + (f", but {images}" if images else "")

    def _why_left(self, run: str | None) -> str | None:
        """Return why the file keeps withdrawn rows; None if they are taken out of it."""
        data, path = self.settings.data, self._file()
        if run is not None:
            return "as other runs may go on learning from them"
        if data.erase == "tombstone":
            return "the rows are left out when it is read (data.erase is tombstone)"
        if path is None or data.id_column == ROW:
            return "as it is no file or folder here, or its ids are row numbers"
        kept = why_kept(path)
        if kept is not None:
            return f"as {kept}"
        try:
            _columns_in(path)
        except InputError:
            return "as it cannot be read: take the rows out of it yourself"
        return None

    def _erase(self, run: str | None) -> str:
        """Remove from the file the records that no run may learn from, and tell what happened to it."""
        path, column = self._file(), self.settings.data.id_column
        told = self.told_of_file(run)  # before, since an emptied file may not tell what its columns were
        # After a stop, a withdrawal from all runs may still have rows to take out, whatever is withdrawn now.
        if path is None or self._why_left(None) is not None:
            return told
        gone = frozenset(self._withdrawn().everywhere)
        # The deletion is in force at the server: an error here is told, and undoes nothing.
        try:
            (ids,) = read_names(path, column)
            answers = erase_records(path, column, {name for name in ids if self.hash_of(name) in gone})
        except InputError as error:
            return f"{path.name}: NOT rewritten ({error})"
        return told + "".join(f", but {answer.reason}" for answer in answers if answer.rows and answer.reason)

    def _withdrawn(self) -> Withdrawn:
        try:
            return self.read(WITHDRAWN, Withdrawn)
        except KeyError:
            return Withdrawn()

    def _columns(self) -> Columns:
        """Return the columns to read; if no input is set, it is `sentence` or `image`, as in the file."""
        data = self.settings.data
        inputs = tuple(data.input_columns or [self._usual_input()])
        images = data.task == "image" if data.task is not None else inputs == ("image",)
        return Columns(inputs, data.id_column, data.label_column, images=images)

    def _usual_input(self) -> str:
        task, path = self.settings.data.task, self._file()
        if task is not None or path is None:
            return "sentence" if task == "text" else "image"
        try:
            names = _columns_in(path)
        except (InputError, OSError):
            names = []  # an unreadable file is reported when its rows are read
        return "sentence" if "sentence" in names and "image" not in names else "image"


def _columns_in(path: Path) -> list[str]:
    """Return the names of the columns of a file; raise `InputError` if it cannot be read."""
    found = format_of(path)
    return FORMATS[found].columns(path) if found else []
