"""Audit of a run: the dependence of each of its files, and whether any depends on deleted data."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from itertools import starmap
from pathlib import Path

from fedsgt.certificates.certify import read_own_certificate
from fedsgt.errors import InputError
from fedsgt.runs.artefacts import (
    CERTIFICATE,
    KEPT_RECORDS,
    MANIFEST,
    MODULE,
    STATISTIC,
    STRAY,
    UNFINISHED,
    WORK_FILE,
    WORK_LOCK,
    ArtefactKind,
    kind_of,
    work_path,
)
from fedsgt.runs.dependencies import (
    Dead,
    FromLines,
    FromLiveModules,
    FromModules,
    FromRecords,
    FromSlice,
    FromStatistic,
    FromTraining,
    MadeOf,
    Nothing,
    PartOfModule,
    StoredFile,
    stored_files,
)
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import hit_by, module_health
from fedsgt.runs.kept_records import check_kept
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import StatisticName, read_statistic
from fedsgt.runs.work import about_work, in_use
from fedsgt.unlearning.erase import SourceReader, rows_to_erase
from fedsgt.unlearning.recovery import unfinished
from fedsgt.unlearning.vanished import vanished_records
from fedsgt.words import counted


@dataclass(frozen=True)
class Finding:
    """One file or object with its dependence, and its problem if it has one."""

    name: str
    depends_on: str
    problem: str | None = None


def audit(folder: RunFolder) -> list[Finding]:
    """Look at all files of the run's folder and all objects of its store; change nothing."""
    reader = SourceReader(folder)
    # Under the store's lock, so that no file appears or goes during the audit.
    with reader.publishing() as live:
        auditor = Auditor(folder, live)
        found = [auditor.look_at(file) for file in stored_files(folder)]
        still_there = rows_to_erase(folder, live, reader)
        return [
            *found,
            *auditor.missing_modules({finding.name for finding in found}),
            *_incomplete_requests(folder),
            *map(_undeleted_source, still_there),
            *starmap(_vanished, vanished_records(folder, live).items()),
        ]


class Auditor:
    """Judges files by the run's live modules and slices, and checks signatures and manifests."""

    def __init__(self, folder: RunFolder, live: Live) -> None:
        self.folder, self.live, self.dead = folder, live, Dead.at(live)
        # With tensors from a remote store too: an audit may take long, and must miss nothing.
        self.health = module_health(folder, live, tensors=True)
        self.groups = {entry.key: entry.groups for entry in live.description.modules}
        self.chain = {entry.position: entry.hash for entry in folder.ledger.entries()}
        # Checks that some kinds of files need besides that of their dependence.
        self.checks: dict[ArtefactKind, Callable[[StoredFile], str | None]] = {
            MODULE: self._check_module,
            MANIFEST: self._check_module,
            CERTIFICATE: self._check_certificate,
            UNFINISHED: lambda file: "left by a killed writer; fedsgt train clears it away",
            KEPT_RECORDS: _check_kept,
            STATISTIC: self._check_statistic,
            WORK_FILE: _check_work,
            WORK_LOCK: _check_work,
        }

    def look_at(self, file: StoredFile) -> Finding:
        """Return a file's dependence, and its problem if it has one."""
        kind = kind_of(file)
        if kind is None or kind is STRAY:
            return Finding(file.name, "unknown", "not a file of a run; move it away, as nobody destroys it")
        if not file.plain:
            # It may lead anywhere, also to bytes that depend on deleted data and that no deletion reaches.
            return Finding(file.name, "unknown", "a link or a device; put the file itself here, or remove it")
        made_of = kind.made_of(file)
        # Files of killed processes are told as such first, whatever they depend on.
        left = self.checks[kind](file) if kind in (UNFINISHED, WORK_FILE, WORK_LOCK) else None
        problem = left or self._dead(made_of)
        if problem is None and kind in self.checks:
            problem = self.checks[kind](file)
        return Finding(file.name, self._words(made_of, kind, file), problem)

    def missing_modules(self, seen: Collection[str]) -> list[Finding]:
        """Return the missing modules of which no file was seen, which would tell the problem itself."""
        lost = (module for module in self.health.problems if module.verdict == "missing")
        return [
            Finding(f"modules/{module.entry.key}", self._groups(module.entry.key), module.problem)
            for module in lost
            if f"modules/{module.entry.key}/module.safetensors" not in seen
        ]

    def _groups(self, key: str) -> str:
        return f"groups {', '.join(map(str, self.groups[key]))}"

    def _under(self, key: str | None) -> str:
        """Return the chain whose features a statistic sums, in words."""
        if key is None:
            return "the bare backbone"
        return self._groups(key) if key in self.groups else f"module {key[:12]}"

    def _words(self, made_of: MadeOf, kind: ArtefactKind, file: StoredFile) -> str:
        words = "unknown"
        match made_of:
            case Nothing(held):
                words = held
            case PartOfModule(key) if key in self.groups:
                words = self._groups(key)
            case FromModules(keys) if keys is not None:
                words = counted(len(keys), "module")
            case FromLines(keys):
                words = counted(len(set(keys)), "module")
            case FromSlice(fingerprint):
                words = f"slice {fingerprint[:12]}"
            case FromRecords(number) if number < len(self.live.description.clients):
                words = f"the records of client {self.live.description.clients[number].name}"
            case FromStatistic(key, number) if number < len(self.live.description.clients):
                client = self.live.description.clients[number].name
                words = f"the records of client {client} at {self._under(key)}"
            case FromLiveModules() if kind is WORK_FILE:
                purpose = about_work(work_path(file)).get("purpose", "process that is gone")
                words = f"any records and modules: the work of a {purpose}"
            case FromLiveModules() if kind is not UNFINISHED:
                words = "the modules that were live when it was made"
            case FromTraining():
                words = "modules trained since the last request"
        return words

    def _dead(self, made_of: MadeOf) -> str | None:
        """Return the dead part of a file's dependence in words; None if it depends on live data only."""
        live, problem = self.dead.live_modules, None
        match made_of:
            case PartOfModule(key):
                problem = self._dead_module(key)
            case FromModules(None):
                problem = "does not say which modules it was made of; remove it"
            case FromTraining(changed):
                # A deletion destroys all of it, so what is there was made later, unless it was put back.
                problem = self._outdated() if changed < self._last_request_time() else None
            case FromModules(keys) if keys is not None and not keys <= live:
                problem = f"made of {counted(len(keys - live), 'module')} not live"
            case FromLines(keys) if not live.issuperset(keys):
                problem = f"{counted(sum(key not in live for key in keys), 'line')} of modules not live"
            case FromSlice() if self.dead.reaches(made_of):
                problem = "of a slice that changed or is gone"
            case FromRecords(number) if number >= len(self.live.description.clients):
                problem = "no client of this run; fedsgt train clears it away"
            case FromRecords() if self.dead.reaches(made_of):
                problem = "holds deleted records, or cannot be read"
            case FromStatistic() if self.dead.reaches(made_of):
                problem = self._dead_statistic(made_of)
            case FromLiveModules() if self.dead.reaches(made_of):
                problem = self._outdated()
        return problem

    def _dead_module(self, key: str) -> str | None:
        module = self.health.modules.get(key)
        if module is None:
            return "no module of this run"
        return module.problem if module.verdict == "not destroyed" else hit_by(self.live, module.entry.groups)

    def _dead_statistic(self, made_of: FromStatistic) -> str:
        """Return why a statistic does not count any more."""
        key = made_of.key
        if key is not None and key not in self.dead.live_modules:
            return f"of a module that is not live: {self._dead_module(key)}"
        if not self.dead.is_client(made_of.number):
            return "of no client of this run; remove it"
        for request in reversed(self.live.requests):
            if any(part["number"] == made_of.number for part in request.body["parts"]):
                return f"made before request no. {request.position} of its client"
        return "made without records that were never deleted; remove it"

    def _outdated(self) -> str:
        return f"older than request no. {self.live.last_request}"

    def _last_request_time(self) -> float:
        requests = self.live.requests
        return datetime.fromisoformat(requests[-1].time).timestamp() if requests else 0.0

    def _check_module(self, file: StoredFile) -> str | None:
        """Check that the module is as it was written, and made as the run's description says."""
        module = self.health.modules[file.parts[1]]
        if module.verdict == "untrained":  # a writer was killed before the manifest
            return f"its manifest is missing; fedsgt retrain {self.folder.path} trains it again"
        return module.problem

    def _check_statistic(self, file: StoredFile) -> str | None:
        """Check that the statistic is as it was written, or heads are solved without it."""
        name = StatisticName.of_file(file.path)
        if name is None or read_statistic(self.folder, name) is not None:
            return None
        return f"damaged, so that no head is solved from it; fedsgt heads {self.folder.path} makes it anew"

    def _check_certificate(self, file: StoredFile) -> str | None:
        """Check that a key of this run signed it, and that the ledger has the entries that it names."""
        try:
            found = read_own_certificate(self.folder, file.path)
        except InputError as error:
            return str(error)
        for entry in (found.request, found.completion):
            if self.chain.get(entry.position) != entry.ledger_hash:
                return f"the ledger has another entry at position {entry.position}"
        return None


def _check_kept(file: StoredFile) -> str | None:
    """Check that the records can be read, or nobody could retrain, verify or delete from them."""
    try:
        check_kept(file.path)
    except InputError as error:
        return str(error)
    return None


def _check_work(file: StoredFile) -> str | None:
    """Check that a process that works with the file is alive."""
    if in_use(work_path(file)):
        return None
    return "left by a killed process; the next command that may write to the run removes it"


def _incomplete_requests(folder: RunFolder) -> list[Finding]:
    problem = "not completed; fedsgt unlearn, retrain or verify completes it"
    return [Finding(f"request no. {entry.position}", "the ledger", problem) for entry in unfinished(folder)]


def _vanished(client: str, count: int) -> Finding:
    """Return the finding that records left a client's source and that modules still depend on them."""
    problem = (
        f"{counted(count, 'record')} that modules depend on left the source and were not deleted here; if "
        "they were to be deleted: fedsgt unlearn RUN --subject ID"
    )
    return Finding(f"client {client}", "its records", problem)


def _undeleted_source(path: Path) -> Finding:
    # The file's name may say whose records are in it, and findings are passed on.
    return Finding("source", "the clients' records", "still holds deleted records")
