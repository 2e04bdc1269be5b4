"""Health of a run's modules: one verdict for each, which every command that names modules asks for.

Modules in a local folder are read and hashed, which takes about 3 ms for 2.4 MB; what was found is remembered
until a file changes. Reading a remote store takes long, so there only names and manifests are looked at,
unless the caller asks for more: names each time, a manifest again only if it was not whole. Damaged tensors
are then found when they are read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from fedsgt.ledger.kinds import MODULES_CHANGED, Kind
from fedsgt.runs.description import Description, ModuleEntry
from fedsgt.runs.state import Live
from fedsgt.store import Folder, Manifest, MissingModule, StoreError
from fedsgt.words import counted

if TYPE_CHECKING:  # only a type: the module of `RunFolder` names a type of this one
    from fedsgt.runs.folder import RunFolder

Verdict = Literal["live", "dead", "untrained", "missing", "damaged", "not destroyed"]
Stamp: TypeAlias = tuple[object, ...]
Reading: TypeAlias = Manifest | StoreError
"""Manifest of a module that is whole, or why it is not."""
GONE = "it was trained, and is not in the store any more"
MADE_OTHERWISE = "its manifest says that it was made from other data or in another way than the run's"
LINES = 10  # most problems that are told in words; JSON has all
TRIES = 3


@dataclass(frozen=True)
class ModuleHealth:
    """Verdict on one module of the plan."""

    run: Path
    entry: ModuleEntry
    verdict: Verdict
    reason: str | None = None
    """Why it is missing, damaged or not destroyed."""
    manifest: Manifest | None = field(default=None, repr=False)
    """Manifest of a live module."""

    @property
    def name(self) -> str:
        """Short key and groups, such as "module 8c2f01d9e4ab (groups 0, 3)"."""
        return f"module {self.entry.key[:12]} (groups {', '.join(map(str, self.entry.groups))})"

    @property
    def told(self) -> str:
        """Reason and remedy."""
        does = "destroys it" if self.verdict == "not destroyed" else "trains it again"
        return f"{self.reason}; fedsgt retrain {self.run} {does}"

    @property
    def problem(self) -> str | None:
        """Verdict, reason and remedy; None if nothing is wrong with the module."""
        return None if self.reason is None else f"{self.verdict}: {self.told}"

    def to_json(self) -> dict[str, Any]:
        """Return the verdict for programs."""
        return {
            "key": self.entry.key,
            "groups": self.entry.groups,
            "verdict": self.verdict,
            "problem": self.problem,
        }


@dataclass(frozen=True)
class RunHealth:
    """Verdicts on all modules of the plan, at one state of the run."""

    live: Live
    modules: dict[str, ModuleHealth] = field(repr=False)
    """By key."""

    @cached_property
    def whole(self) -> frozenset[str]:
        """Keys of the modules that are live: trained, not hit by a deletion, and as they were written."""
        return frozenset(key for key, module in self.modules.items() if module.verdict == "live")

    @property
    def damaged(self) -> frozenset[str]:
        """Keys of the modules that are there, and not as they were written."""
        return frozenset(key for key, module in self.modules.items() if module.verdict == "damaged")

    @cached_property
    def lost(self) -> frozenset[str]:
        """Keys of the modules that should be live and are missing or damaged."""
        found = self.modules.items()
        return frozenset(key for key, module in found if module.verdict in ("missing", "damaged"))

    @cached_property
    def prefixes(self) -> list[tuple[int, ...]]:
        """The part of each sequence that is served: up to its first module that is not live."""
        return self.live.prefixes(self.whole)

    @property
    def problems(self) -> tuple[ModuleHealth, ...]:
        """Modules that are missing, damaged or not destroyed, in the order of the plan."""
        return tuple(module for module in self.modules.values() if module.problem is not None)

    def without(self, damaged: dict[str, str]) -> RunHealth:
        """Return these verdicts, with further live modules damaged; `damaged` has the reasons by key."""
        found = {
            key: replace(self.modules[key], verdict="damaged", reason=reason, manifest=None)
            for key, reason in damaged.items()
            if key in self.whole
        }
        return RunHealth(self.live, self.modules | found) if found else self


def problem_lines(problems: Collection[ModuleHealth]) -> list[str]:
    """Return a line for each problem, in the words that all commands use; the last counts those left out."""
    lines = [f"{module.name} is {module.problem}" for module in problems]
    return lines[:LINES] + (
        [f"and {counted(len(lines) - LINES, 'more module')}"] if len(lines) > LINES else []
    )


def module_health(folder: RunFolder, live: Live, tensors: bool | None = None) -> RunHealth:
    """Return a verdict on every module of the plan in this state.

    `tensors` says whether to read and hash the tensors of live modules, or to look at their manifests only;
    by default they are read if the store is a local folder.
    """
    objects = folder.modules.objects
    deep = isinstance(objects, Folder) if tensors is None else tensors
    names = [name.split("/") for name in objects.names("modules/")]
    there = {parts[1] for parts in names}
    present = {parts[1] for parts in names if parts[2:] == ["manifest.json"]}
    found: dict[str, ModuleHealth] = {}
    for entry in live.description.modules:
        if live.dead.isdisjoint(entry.groups):
            found[entry.key] = _live_module(folder, live, entry, entry.key in present, deep)
        elif entry.key in there:
            reason = f"{hit_by(live, entry.groups)}, and its bytes are still there"
            found[entry.key] = ModuleHealth(folder.path, entry, "not destroyed", reason)
        else:
            found[entry.key] = ModuleHealth(folder.path, entry, "dead")
    return RunHealth(live, _settled(folder, live, _with_missing(folder, live, found)))


def read_module(folder: RunFolder, known: Description, entry: ModuleEntry, tensors: bool = True) -> Reading:
    """Return the module's manifest, checked against the run's description, or the error that says why not.

    With `tensors`, these are read and hashed.
    """
    try:
        if tensors:
            folder.modules.get(entry.key)
        manifest = folder.modules.manifest(entry.key)
    except StoreError as error:
        return error
    said = (manifest.prefix, manifest.config_hash, manifest.backbone, manifest.profile)
    if said != (entry.prefix, known.config_hash, known.backbone, known.profile):
        return StoreError(MADE_OTHERWISE)
    return manifest


def reason_of(error: StoreError, key: str) -> str:
    """Return the store's message without the module's key, which stands beside it in short."""
    return str(error).removeprefix(f"module {key} is corrupt: ")


def _live_module(
    folder: RunFolder, live: Live, entry: ModuleEntry, present: bool, deep: bool
) -> ModuleHealth:
    """Return the verdict on a module that no deletion has hit; a missing one counts as untrained as yet."""
    reading = _remembered(folder, live, entry, deep) if present else MissingModule("")
    if isinstance(reading, MissingModule):
        return ModuleHealth(folder.path, entry, "untrained")
    if isinstance(reading, StoreError):
        return ModuleHealth(folder.path, entry, "damaged", reason_of(reading, entry.key))
    return ModuleHealth(folder.path, entry, "live", manifest=reading)


def _remembered(folder: RunFolder, live: Live, entry: ModuleEntry, deep: bool) -> Reading:
    """Return the manifest that the last reading found if the files are the same, else read the module."""
    for _ in range(TRIES):
        stamp = _stamp(folder, entry.key)
        known = folder.readings.get((entry.key, deep))
        if known is not None and known[0] == stamp:
            return known[1]
        reading = read_module(folder, live.description, entry, deep)
        if isinstance(reading, Manifest):
            folder.readings[entry.key, deep] = (stamp, reading)
            break
        # A training may have replaced the module meanwhile; half of each would look damaged.
        if _stamp(folder, entry.key) == stamp:
            break
    return reading


def _stamp(folder: RunFolder, key: str) -> Stamp:
    """Return values that change with the module's files; of a remote store, nothing is known to change."""
    objects = folder.modules.objects
    if not isinstance(objects, Folder):
        return ()
    place = objects.root / "modules" / key
    return _file_stamp(place / "manifest.json"), _file_stamp(place / "module.safetensors")


def _file_stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    # The time of change too: a program that alters a file may set its time of writing back.
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def hit_by(live: Live, groups: Collection[int]) -> str | None:
    """Say which request was the first to hit any of these groups; None if they are all live."""
    for request in live.requests:
        hit = set(groups).intersection(request.body["groups"])
        if hit and request.position > live.description.as_of:
            return f"group {min(hit)} was hit by request no. {request.position}"
    return None


def _with_missing(folder: RunFolder, live: Live, found: dict[str, ModuleHealth]) -> dict[str, ModuleHealth]:
    """Tell modules that have gone missing from those that were never trained.

    Once training was complete, all were trained; before that, those that present modules stand on.
    """
    absent = [key for key, module in found.items() if module.verdict == "untrained"]
    if not absent:
        return found
    complete, chain = _is_complete(folder, live), live.description.chain
    there = (module.entry for module in found.values() if module.verdict in ("live", "damaged"))
    below = {key for entry in there for key in chain(tuple(entry.groups))}
    gone = {
        key: replace(found[key], verdict="missing", reason=GONE) for key in absent if complete or key in below
    }
    return found | gone


def _is_complete(folder: RunFolder, live: Live) -> bool:
    """Whether all modules of the description have been in the store, by the ledger."""
    entries = folder.ledger.entries(after=live.description.as_of)
    changes = [entry for entry in entries if entry.kind in MODULES_CHANGED]
    last = changes[-1] if changes else None
    if last is None or last.kind != Kind.BUILT:
        return False
    return int(last.body["modules"]) >= len(live.description.modules)


def _settled(folder: RunFolder, live: Live, found: dict[str, ModuleHealth]) -> dict[str, ModuleHealth]:
    """Count modules as dead, not as lost, if a deletion has destroyed them since this state was read."""
    lost = [module for module in found.values() if module.verdict in ("missing", "damaged")]
    now = folder.live() if lost else live
    if now.last_request == live.last_request:
        return found
    dead = {entry.key for entry in now.dead_modules()}
    gone = {
        module.entry.key: replace(module, verdict="dead", reason=None)
        for module in lost
        if module.entry.key in dead
    }
    return found | gone
