"""The registry of artefacts: every kind of file that a run can hold.

Each kind says which files it claims, what a file depends on, and how to destroy one. Destruction, sweeping,
certificates and the audit walk the registry and know no file names themselves, so a new kind of file is
added here or the audit reports it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fedsgt.files.durable import finished_path, remove_abandoned
from fedsgt.files.removal import bury_folder
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
from fedsgt.runs.kept_records import RECORDS, TEST, split_rows
from fedsgt.runs.state import MARK_DIGITS
from fedsgt.runs.work import WORK, WORK_ID, about_work, destroy_work

if TYPE_CHECKING:  # only a type: the module of `RunFolder` imports this one
    from fedsgt.runs.folder import RunFolder

CONFIG, DESCRIPTION, LEDGER = "run.toml", "run.json", "ledger.sqlite"
# New description, until the old one is replaced by it.
NEXT_DESCRIPTION = "run.next.json"
REGISTERS = "registers"
LOCK, STORE_LOCK = "lock", "store.lock"
CERTIFICATES, SIGNING_KEY, PUBLIC_KEY = "certificates", "signing.key", "signing.pub"
METRICS, EVALUATION, REPORT = "metrics.jsonl", "evaluation.json", "report.html"
TRAFFIC, COMPARED, CACHE = "traffic.json", "compared.json", "cache"
# Statistics of clients' records, a folder for each chain of modules, and one for the bare backbone.
STATISTICS, BARE = "statistics", "backbone"
# Adapters for other software, each with a note of the modules in it.
EXPORTS, EXPORT_NOTE = "export", "fedsgt.json"
_KEY = "[0-9a-f]{64}"
# The folders of a store. Others in it are not the run's, even if they are called like folders of a run.
STORE_FOLDERS = ("modules", "rounds")

Remove: TypeAlias = Callable[["RunFolder", StoredFile, Dead], None]


@dataclass(frozen=True, eq=False)
class ArtefactKind:
    """One kind of file that a run can hold."""

    names: tuple[str, ...]
    """Regular expressions, one for each part of the file's name."""
    made_of: Callable[[StoredFile], MadeOf]
    """Function that returns the dependence of a file of this kind."""
    label: str | None = None
    """Name of the kind in the ledger and in certificates; None if no certificate lists it."""
    deep: bool = False
    """Whether files in folders below the last part of the name belong to it too."""
    split: Callable[[bytes, Dead], tuple[bytes | None, bytes]] | None = None
    """Function that divides the content into what stays and what goes; None if the whole file goes.

    It may also find that nothing stays of a file, and return None for that.
    """
    destroy: Remove = field(default=lambda folder, file, dead: file.remove())
    sweep: Callable[[RunFolder, StoredFile], None] = field(default=lambda folder, file: None)
    """Function that removes the file if a stopped writer left it, or nothing needs it any more."""

    def claims(self, file: StoredFile) -> bool:
        """Whether the file is of this kind, or a link in place of a folder of such files."""
        parts = file.parts
        if file.elsewhere and self.names and self.names[0] not in STORE_FOLDERS:
            return False
        # Unfinished files of a work folder belong to it: a deletion does not wait for their writers.
        inside_work = parts[0] == WORK and len(parts) > 2 and not file.elsewhere
        if _is_unfinished(parts[-1]) and not inside_work:
            return self is UNFINISHED
        long_enough = len(parts) >= len(self.names) or not file.plain
        if not long_enough or (len(parts) > len(self.names) and not self.deep):
            return False
        return all(map(re.fullmatch, self.names, parts))


def _is_unfinished(name: str) -> bool:
    return name.startswith(".") and finished_path(Path(name)) is not None


def _named(*names: str) -> tuple[str, ...]:
    return tuple(map(re.escape, names))


def _module_part(file: StoredFile) -> MadeOf:
    if len(file.parts) == 1:  # a link in place of the whole folder
        return FromModules(None)
    return PartOfModule(file.parts[1].removesuffix(".safetensors"))


def _slice(file: StoredFile) -> MadeOf:
    if len(file.parts) == 1:
        return FromModules(None)
    # An empty file in place of the folder means that the activations were destroyed.
    return Nothing() if len(file.parts) == 2 and file.is_empty() else FromSlice(file.parts[1])


def _statistic(file: StoredFile) -> MadeOf:
    found = STATISTIC_NAME.fullmatch(file.parts[-1])
    if found is None or not file.plain:  # a link in place of a folder, or of a file
        return FromLiveModules(None)
    return FromStatistic(None if file.parts[1] == BARE else file.parts[1], int(found[1]), found[2])


def _kept_records(file: StoredFile) -> MadeOf:
    if len(file.parts) == 1 or not file.plain:  # a link, which may lead to records of anybody
        return FromModules(None)
    return FromRecords(int(file.parts[1].removesuffix(".parquet")), file.path)


def _sweep_kept(folder: RunFolder, file: StoredFile) -> None:
    # A client that was to come back, and whose enrolment was cut short.
    if int(file.parts[1].removesuffix(".parquet")) >= len(folder.description.clients):
        file.remove()


def _exported(file: StoredFile) -> MadeOf:
    """Return the modules that the export's note names; an export without a readable note may hold any."""
    export = StoredFile("/".join(file.parts[:2]), file.root).path
    note = export / EXPORT_NOTE
    if not file.plain or note.is_symlink():
        return FromModules(None)
    try:
        told = json.loads(note.read_text(encoding="utf-8"))
        # A solved head depends on the records of all clients that were retained at that position.
        if told.get("position") is not None:
            return FromLiveModules(int(told["position"]))
        return FromModules(frozenset(told["modules"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return FromModules(None)


def _figures(file: StoredFile) -> MadeOf:
    """Return the position of the ledger that the page or the evaluation says it was made at."""
    text = file.read().decode(errors="replace")
    marked = re.search(r'<meta name="fedsgt-ledger" content="(\d+)"', text)
    if marked:
        return FromLiveModules(int(marked[1]))
    try:
        found = json.loads(text)["position"]
    except (ValueError, KeyError, TypeError):
        return FromLiveModules(None)
    return FromLiveModules(found if isinstance(found, int) else None)


def _curves(file: StoredFile) -> MadeOf:
    changed = file.changed()
    return Nothing() if changed is None else FromTraining(changed)


def _lines(file: StoredFile) -> MadeOf:
    # A link is not read, so it may lead to lines of any module.
    return FromLines(tuple(key for _, key in _lines_of(file.read()))) if file.plain else FromModules(None)


def _lines_of(data: bytes) -> list[tuple[bytes, str | None]]:
    return [(line, _module_of(line)) for line in data.splitlines(keepends=True)]


def _module_of(line: bytes) -> str | None:
    try:
        found = json.loads(line)["module"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _split_lines(data: bytes, dead: Dead) -> tuple[bytes, bytes]:
    lines = _lines_of(data)
    # A line that names no module may be of any, so it goes too.
    kept = [line for line, key in lines if key in dead.live_modules]
    gone = [line for line, key in lines if key not in dead.live_modules]
    return b"".join(kept), b"".join(gone)


def metrics_lines(folder: RunFolder) -> list[tuple[bytes, str | None]]:
    """Return each line of the run's metrics with the key of its module, if it can be read."""
    try:
        return _lines_of((folder.path / METRICS).read_bytes())
    except FileNotFoundError:
        return []


def _bury(folder: RunFolder, file: StoredFile, dead: Dead) -> None:
    if len(file.parts) == 1 or file.parts[1].startswith("."):
        file.remove()
    else:
        bury_activations(folder.cache, file.parts[1])


def bury_activations(cache: Path, fingerprint: str) -> None:
    """Destroy a slice's activations and put an empty file in place of their folder.

    The file keeps a worker that still holds the slice's records from writing its activations again.
    """
    bury_folder(cache / fingerprint)


def _work(file: StoredFile) -> MadeOf:
    """Return the position of the ledger at which the content of a work folder was chosen."""
    if len(file.parts) == 1 or not file.plain:
        return FromLiveModules(None)
    # An empty file in place of the folder means that its content was destroyed.
    if len(file.parts) == 2 and file.is_empty():
        return Nothing()
    return work_made_of(work_path(file))


def work_path(file: StoredFile) -> Path:
    """Return the work folder that a file of one belongs to, or its lock."""
    return StoredFile(WORK, file.root).path / file.parts[1].removeprefix(".").removesuffix(".lock")


def work_made_of(path: Path) -> FromLiveModules:
    """Return the dependence of everything in a work folder, also of what is still to be written there."""
    position = about_work(path).get("position")
    return FromLiveModules(position if isinstance(position, int) else None)


def _destroy_work(folder: RunFolder, file: StoredFile, dead: Dead) -> None:
    if len(file.parts) == 1:  # a link in place of the whole folder
        file.remove()
    else:
        destroy_work(work_path(file))


def _sweep_activations(folder: RunFolder, file: StoredFile) -> None:
    known = any(file.parts[1] in client.slices for client in folder.description.clients)
    # The empty file kept out the workers of an earlier training, which are gone when a new one begins.
    buried = len(file.parts) == 2 and file.is_empty()
    if buried or not known or file.name.endswith(".tmp"):
        file.remove()


def _sweep_checkpoint(folder: RunFolder, file: StoredFile) -> None:
    key = file.parts[-1].removesuffix(".safetensors")
    if folder.modules.state(key) == "present":  # stopped after the module was written
        file.remove()


def _sweep_unfinished(folder: RunFolder, file: StoredFile) -> None:
    # A writer that is at work holds a lock on its file, which therefore stays.
    if not file.plain or remove_abandoned(file.path):
        file.remove()  # also removes the folders that it leaves empty


UNFINISHED = ArtefactKind(
    (),
    # It may hold anything that is ever written, so it goes with every deletion.
    lambda file: FromLiveModules(None),
    destroy=lambda folder, file, dead: _sweep_unfinished(folder, file),
    sweep=_sweep_unfinished,
)
WORK_FILE = ArtefactKind(
    (WORK, rf"\.?{WORK_ID}"),
    # It may hold records of any client and modules of any group.
    _work,
    "work",
    deep=True,
    destroy=_destroy_work,
)
WORK_LOCK = ArtefactKind((WORK, rf"{WORK_ID}\.lock"), lambda file: Nothing())
# Records that were given in memory: they are nowhere else, so a deletion takes them out here.
KEPT_RECORDS = ArtefactKind(
    (RECORDS, r"\d+\.parquet"),
    _kept_records,
    "records",
    split=lambda data, dead: split_rows(data, dead.records, dead.is_client),
    sweep=_sweep_kept,
)
KEPT_TEST = ArtefactKind(_named(RECORDS, TEST), lambda file: Nothing("test records, which no client holds"))
MANIFEST = ArtefactKind(("modules", _KEY, r"manifest\.json"), _module_part, "manifest")
MODULE = ArtefactKind(("modules", _KEY, r"module\.safetensors"), _module_part, "module")
_TEST = r"test-[0-9a-f]{16}\.safetensors"
PREDICTIONS = ArtefactKind(("modules", _KEY, _TEST), _module_part, "predictions")
# Number of the client, and the mark of the deletions that its records were without.
STATISTIC_NAME = re.compile(rf"(\d+)-([0-9a-f]{{{MARK_DIGITS}}})\.safetensors")
STATISTIC = ArtefactKind(
    (STATISTICS, f"({BARE}|{_KEY})", STATISTIC_NAME.pattern),
    _statistic,
    "statistic",
    # There are thousands, in a folder for each chain: destruction syncs their folders at its end.
    destroy=lambda folder, file, dead: file.remove(sync=not file.plain),
)
# Features of test records under the bare backbone, which no client's record had a part in.
BARE_FEATURES = ArtefactKind(
    (STATISTICS, BARE, _TEST), lambda file: Nothing("test records under the bare backbone")
)
# A file that somebody else put beside a module may be a copy of it, so it goes with the module.
STRAY = ArtefactKind(
    ("modules", _KEY, rf"(?!(manifest\.json|module\.safetensors|{_TEST})$).+"),
    _module_part,
    "predictions",
    deep=True,
)
CERTIFICATE = ArtefactKind(
    (CERTIFICATES, r"\d{6,}\.json"), lambda file: Nothing("salted hashes, and hashes of what was destroyed")
)
# Certificates of requests that the ledger lost and a replay brought back, named by their hash too.
REPLAYED_CERTIFICATE = ArtefactKind(
    (CERTIFICATES, r"\d{6,}-[0-9a-f]{16}\.json"), lambda file: Nothing("the same, from before a backup")
)


def _plain(words: str, *names: str) -> ArtefactKind:
    return ArtefactKind((f"({'|'.join(names)})",), lambda file: Nothing(words))


REGISTRY: tuple[ArtefactKind, ...] = (
    # Manifests are destroyed first: a module exists as long as its manifest does.
    MANIFEST,
    MODULE,
    PREDICTIONS,
    STRAY,
    ArtefactKind(("rounds", rf"{_KEY}\.safetensors"), _module_part, "checkpoint", sweep=_sweep_checkpoint),
    ArtefactKind(
        (CACHE, rf"\.?{_KEY}"),
        _slice,
        "activations",
        deep=True,
        destroy=_bury,
        sweep=_sweep_activations,
    ),
    ArtefactKind((EXPORTS, ".+"), _exported, "export", deep=True),
    ArtefactKind((f"({re.escape(EVALUATION)}|{re.escape(REPORT)})",), _figures, "figures"),
    ArtefactKind(_named(METRICS), _lines, "metrics", split=_split_lines),
    # Formats of which no part can be taken out.
    ArtefactKind((r"mlflow\.db(-wal|-shm|-journal)?",), _curves, "metrics"),
    ArtefactKind(("tensorboard",), _curves, "metrics", deep=True),
    STATISTIC,
    BARE_FEATURES,
    KEPT_RECORDS,
    KEPT_TEST,
    WORK_FILE,
    WORK_LOCK,
    UNFINISHED,
    CERTIFICATE,
    REPLAYED_CERTIFICATE,
    _plain("the configuration", re.escape(CONFIG)),
    _plain("salted fingerprints and numbers of records", *_named(DESCRIPTION, NEXT_DESCRIPTION)),
    _plain("salted hashes of what was deleted", rf"{re.escape(LEDGER)}(-wal|-shm|-journal)?"),
    ArtefactKind((REGISTERS, r"\d+\.json"), lambda file: Nothing("salted hashes of registered ids")),
    _plain("numbers of messages and of bytes", re.escape(TRAFFIC)),
    _plain("nothing: folders of other runs", re.escape(COMPARED)),
    _plain("nothing", *_named(LOCK, STORE_LOCK, SIGNING_KEY, PUBLIC_KEY), r"signing-[0-9a-f]{16}\.pub"),
)


def kind_of(file: StoredFile) -> ArtefactKind | None:
    """Return the kind that claims the file; None if it is no file of a run."""
    return next((kind for kind in _kinds_at(file.parts[0]) if kind.claims(file)), None)


@cache
def _kinds_at(top: str) -> tuple[ArtefactKind, ...]:
    """Return the kinds of files in this folder or of this name."""
    # Cached, because a store has thousands of objects in a handful of folders.
    return tuple(kind for kind in REGISTRY if not kind.names or re.fullmatch(kind.names[0], top))


def claimed_files(folder: RunFolder) -> Iterator[tuple[ArtefactKind, StoredFile]]:
    """List the files of the run that some kind claims, each with its kind."""
    for file in stored_files(folder):
        kind = kind_of(file)
        if kind is not None:
            yield kind, file
