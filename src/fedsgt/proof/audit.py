"""Every file of a run and what it depends on; any byte that depends on deleted data is a problem."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from fedsgt.certificates.content import Certificate
from fedsgt.certificates.keys import PUBLIC_KEY, SIGNING_KEY, public_keys
from fedsgt.certificates.signatures import BadSignature, read_certificate
from fedsgt.errors import InputError
from fedsgt.runs.artefacts import COMPARED, EXPORTS, METRICS, TRACKED, exports_of, metrics_lines
from fedsgt.runs.folder import CERTIFICATES, CONFIG, DESCRIPTION, LEDGER, LOCK, STORE_LOCK, RunFolder
from fedsgt.runs.state import Live
from fedsgt.runs.traffic import FILE as TRAFFIC
from fedsgt.store import Folder
from fedsgt.unlearning.destroy import FIGURES, hit_slices
from fedsgt.unlearning.erase import rows_to_erase
from fedsgt.unlearning.unlearn import unfinished

PLAIN = {
    CONFIG: "the configuration",
    DESCRIPTION: "salted fingerprints and numbers of records",
    LOCK: "nothing",
    TRAFFIC: "numbers of messages and of bytes",
    COMPARED: "nothing: folders of other runs",
    STORE_LOCK: "nothing",
    SIGNING_KEY: "nothing",
    PUBLIC_KEY: "nothing",
    LEDGER: "salted hashes of what was deleted",
    f"{LEDGER}-wal": "salted hashes of what was deleted",
    f"{LEDGER}-shm": "salted hashes of what was deleted",
}
PUBLIC = re.compile(r"signing-[0-9a-f]{16}\.pub")
UNFINISHED = re.compile(r"\.[0-9a-f]{16}\..+")


@dataclass(frozen=True)
class Finding:
    """One file or object, what it depends on, and what is wrong with it, if anything is."""

    name: str
    depends_on: str
    problem: str | None = None


def audit(folder: RunFolder) -> list[Finding]:
    """All files of the run's folder and all objects of its store; nothing is changed."""
    with folder.publishing() as live:
        auditor = Auditor(folder, live)
        found = [auditor.look_at(name) for name in _names(folder)]
        return [*found, *_requests(folder), *_sources(folder, live)]


class Auditor:
    """Knows what is live, and so what each file may depend on."""

    def __init__(self, folder: RunFolder, live: Live) -> None:
        self.folder, self.live = folder, live
        self.wanted = {entry.key: entry for entry in live.description.modules}
        self.alive = {entry.key for entry in live.modules()}
        marks = (mark for client in live.description.clients for mark in client.slices)
        self.slices = set(marks) - set(hit_slices(live))
        self.chain = {entry.position: entry.hash for entry in folder.ledger.entries()}
        self.exports = {path.name: keys for path, keys in exports_of(folder)}
        self.kinds: dict[str, Callable[[str], Finding]] = {
            "modules": self._module,
            "rounds": self._module,
            "cache": self._activations,
            EXPORTS: self._export,
            CERTIFICATES: self._certificate,
            METRICS: self._metrics,
            **dict.fromkeys(FIGURES, self._figures),
            **dict.fromkeys(TRACKED, self._tracked),
        }

    def look_at(self, name: str) -> Finding:
        if UNFINISHED.fullmatch(name.rpartition("/")[2]):
            return Finding(name, "unknown", "left by a killed writer; fedsgt train clears it away")
        if name in PLAIN or PUBLIC.fullmatch(name):
            return Finding(name, PLAIN.get(name, "nothing"))
        top = name.partition("/")[0]
        if top in self.kinds:
            return self.kinds[top](name)
        return Finding(name, "unknown", "not a file of a run; move it away, as nobody destroys it")

    def _module(self, name: str) -> Finding:
        key = name.split("/")[1].removesuffix(".safetensors")
        entry = self.wanted.get(key)
        if entry is None:
            return Finding(name, "unknown", "no module of this run")
        groups = f"groups {', '.join(map(str, entry.groups))}"
        return Finding(name, groups, self._dead(entry.groups) or self._unlike(name, key))

    def _dead(self, groups: list[int]) -> str | None:
        for request in self.live.requests:
            if request.position > self.live.description.as_of:
                hit = set(groups) & set(request.body["groups"])
                if hit:
                    return f"group {min(hit)} was hit by the request at {request.position}"
        return None

    def _unlike(self, name: str, key: str) -> str | None:
        """A module's bytes must be those of its manifest, and that must say what the description says."""
        kind = name.rpartition("/")[2]
        if kind not in ("manifest.json", "module.safetensors"):
            return None
        try:
            if kind == "module.safetensors":
                self.folder.modules.get(key)
                return None
            self.folder.modules.objects.read(name.replace("manifest.json", "module.safetensors"))
            found = self.folder.modules.manifest(key)
        except KeyError:
            return "its module is missing; fedsgt train makes it again"
        except InputError as error:
            return f"{error}; fedsgt train makes it again"
        same = found.prefix == self.wanted[key].prefix
        return None if same else "made of other data than the run's description says"

    def _activations(self, name: str) -> Finding:
        mark = name.split("/")[1]
        place = self.folder.path / name
        if name.count("/") == 1 and not place.stat().st_size:
            return Finding(name, "nothing", None)
        known = mark in self.slices
        return Finding(name, f"slice {mark[:12]}", None if known else "of a slice that changed or is gone")

    def _export(self, name: str) -> Finding:
        keys = self.exports.get(name.split("/")[1])
        if keys is None:
            return Finding(name, "unknown", "does not say which modules it was made of; remove it")
        dead = keys - self.alive
        problem = f"made of {len(dead)} modules that are not live" if dead else None
        return Finding(name, f"{len(keys)} modules", problem)

    def _certificate(self, name: str) -> Finding:
        """Signed by the run's key, and what it says of the ledger is what the ledger says."""
        try:
            found = self._read_signed(name)
            for entry in (found.request, found.completion):
                if self.chain.get(entry.position) != entry.ledger_hash:
                    raise InputError(f"the ledger has another entry at position {entry.position}")
        except InputError as error:
            return Finding(name, "salted hashes", str(error))
        return Finding(name, "salted hashes, and hashes of what was destroyed")

    def _read_signed(self, name: str) -> Certificate:
        """By any key that signed for this run."""
        refused = InputError(f"{name}: there is no public key to check it with")
        for key in public_keys(self.folder):
            try:
                return read_certificate(self.folder.path / name, key)
            except BadSignature as error:
                refused = error
        raise refused

    def _metrics(self, name: str) -> Finding:
        keys = [key for _, key in metrics_lines(self.folder)]
        bad = sum(key not in self.alive for key in keys)
        return Finding(name, f"{len(set(keys))} modules", f"{bad} lines of modules not live" if bad else None)

    def _figures(self, name: str) -> Finding:
        text = (self.folder.path / name).read_text(encoding="utf-8", errors="replace")
        position = _position(text)
        problem = None
        if position is None or position < self.live.last_request:
            problem = f"older than the request at {self.live.last_request}"
        return Finding(name, "the modules that were live when it was made", problem)

    def _tracked(self, name: str) -> Finding:
        changed = (self.folder.path / name).stat().st_mtime
        last = self.live.requests[-1].time if self.live.requests else None
        old = last is not None and changed < datetime.fromisoformat(last).timestamp()
        problem = f"older than the request at {self.live.last_request}" if old else None
        return Finding(name, "modules trained since the last request", problem)


def _names(folder: RunFolder) -> Iterator[str]:
    here = sorted(path for path in folder.path.rglob("*") if path.is_file())
    yield from (path.relative_to(folder.path).as_posix() for path in here)
    objects = folder.modules.objects
    if not isinstance(objects, Folder):
        yield from objects.names()
    elif objects.root != folder.path.absolute():
        there = sorted(path for path in objects.root.rglob("*") if path.is_file())
        yield from (path.relative_to(objects.root).as_posix() for path in there)


def _requests(folder: RunFolder) -> list[Finding]:
    return [
        Finding(
            f"request at {entry.position}",
            "the ledger",
            "not completed; fedsgt unlearn, retrain or verify completes it",
        )
        for entry in unfinished(folder)
    ]


def _sources(folder: RunFolder, live: Live) -> list[Finding]:
    return [
        Finding(artefact.name, "the clients' records", "still holds deleted records")
        for artefact in rows_to_erase(folder, live)
    ]


def _position(text: str) -> int | None:
    """Of the ledger, at which a page or an evaluation was made."""
    marked = re.search(r'<meta name="fedsgt-ledger" content="(\d+)"', text)
    if marked:
        return int(marked[1])
    try:
        found = json.loads(text)["position"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None
