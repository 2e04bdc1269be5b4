"""Verification: train the served modules and make the statistics again from retained data; compare the bytes.

Every served parameter must be a function of retained data only (definition 8). So modules are trained again
in a fresh process that knows nothing but a fresh folder, in which deleted records do not exist.
"""

from __future__ import annotations

import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from fedsgt.certificates.certify import data_dependent_choices
from fedsgt.errors import InputError
from fedsgt.proof.rebuild_folder import write_retained
from fedsgt.proof.rebuild_process import COMMAND, NotRebuilt, Progress, Rebuild, Verdict, run_rebuild
from fedsgt.proof.verify_statistics import StatisticCheck, VerifiedStatistic
from fedsgt.runs.description import ModuleEntry
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import ModuleHealth, module_health, read_module, reason_of
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import missing_statistics
from fedsgt.runs.work import work_folder
from fedsgt.store import Folder, Manifest, MissingModule, Modules, compare
from fedsgt.unlearning.recovery import unfinished


@dataclass(frozen=True)
class VerifiedModule:
    """A module with its verdict, and the reason in one line."""

    key: str
    groups: tuple[int, ...]
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Verification:
    """Result of a verification at one position of the ledger."""

    modules: tuple[VerifiedModule, ...]
    """Modules that were trained again, and those that were wrong before any training."""
    served: int
    """Number of all modules that could be verified."""
    sample: int | None
    """Number of modules asked for; None for all."""
    seed: int
    """Seed of the sample, and of the order in which modules were trained."""
    position: int
    """Ledger position at which modules were live."""
    unfinished: tuple[int, ...]
    """Positions of requests whose files may still be there, or whose certificate is missing."""
    data_dependent_choices: tuple[str, ...]
    """Choices that looked at the content of data.

    They may carry traces of records deleted later, which equal bytes cannot rule out (definition 8).
    """
    seconds: float
    statistics: tuple[VerifiedStatistic, ...] = ()
    """Statistics that were made again, and those that were wrong before."""
    waiting: int = 0
    """Number of statistics that are wanted and not there yet, which is no failure."""

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(module.verdict for module in self.modules))

    @property
    def statistic_counts(self) -> dict[str, int]:
        return dict(Counter(statistic.verdict for statistic in self.statistics))

    @property
    def failed(self) -> bool:
        """True if anything differs, is damaged or was not destroyed; "not comparable" is not a failure."""
        return bool(self._verdicts - {"same", "not comparable"})

    @property
    def passed(self) -> bool:
        """True if every module and statistic that was looked at is the same, bit for bit."""
        return self._verdicts <= {"same"}

    @property
    def _verdicts(self) -> set[str]:
        return {*self.counts, *self.statistic_counts}

    def to_json(self) -> dict[str, Any]:
        counts = {"counts": self.counts, "statistic_counts": self.statistic_counts}
        return {"passed": self.passed} | counts | asdict(self)


def verify(
    folder: RunFolder,
    sample: int | None = None,
    seed: int | None = None,
    progress: Progress = lambda share: None,
    *,
    command: Sequence[str] = COMMAND,
    rebuild: Rebuild | None = None,
    keep: Path | None = None,
) -> Verification:
    """Train the served modules again, or a sample drawn by the seed, and compare their bytes.

    The statistics under their chains and under the bare backbone are made again too. All this is done by the
    process that `command` starts with a folder and a seed, or by `rebuild` if given. The folder is one of the
    run's work folders, or `keep`, which is left there.
    """
    rebuild = rebuild or partial(run_rebuild, command)
    if sample is not None and sample < 1:
        raise InputError(f"sample: {sample} is not allowed; it is the number of modules to verify, 1 or more")
    started = time.monotonic()
    # Drawn anew each time, so that nobody can know beforehand which modules a sample will hold.
    seed = secrets.randbelow(2**32) if seed is None else seed
    # The state is fixed here: a request that comes later stops the verification.
    live, present = folder.live(), folder.present()
    served = [entry for entry in live.modules() if entry.key in present]
    chosen = served if sample is None else random.Random(seed).sample(served, min(sample, len(served)))
    # These need no training to be wrong, and are reported even if the sample does not hold them.
    found = _problems(folder, live)
    claims = _read(folder, live, _with_parents(live, chosen), found)
    # Damaged modules are not trained again, but one that is whole above a damaged parent needs the parent.
    wanted = _with_parents(live, [entry for entry in chosen if entry.key in claims])
    statistics = StatisticCheck(folder, live, None if sample is None else wanted)
    names = statistics.read([entry.key for entry in wanted])
    if wanted or names:
        with _private_folder(folder, live, keep) as path, _stopped_by_request(folder, live) as check:
            write_retained(path, folder, live, wanted, _took_part(claims), names)
            unbuilt = rebuild(path, seed, check, progress)
            found |= _compared(wanted, claims, unbuilt, Modules(Folder(path)))
            statistics.compare(replace(folder, path=path), unbuilt)
    return Verification(
        modules=tuple(found.values()),
        served=len(served),
        sample=sample,
        seed=seed,
        position=live.position,
        unfinished=tuple(entry.position for entry in unfinished(folder)),
        data_dependent_choices=tuple(data_dependent_choices(live)),
        seconds=time.monotonic() - started,
        statistics=statistics.verified,
        waiting=sum(map(len, missing_statistics(folder, live).values())),
    )


Found: TypeAlias = dict[str, VerifiedModule]


def _took_part(claims: Mapping[str, Manifest]) -> dict[str, list[list[str]]]:
    """Return the clients that took part in each round, by module, as the manifests name them."""
    # A client may have been away. Training without it was not wrong, and must be repeated without it.
    return {key: [sorted(names) for names in claim.participants] for key, claim in claims.items()}


def _verdict(entry: ModuleEntry, verdict: Verdict, reason: str) -> Found:
    return {entry.key: VerifiedModule(entry.key, tuple(entry.groups), verdict, reason)}


def _problems(folder: RunFolder, live: Live) -> Found:
    """Return the modules that are wrong before any training: missing, damaged or not destroyed."""
    found: Found = {}
    for module in module_health(folder, live).problems:
        # A problem is never live, dead or untrained.
        found |= _verdict(module.entry, cast("Verdict", module.verdict), module.told)
    return found


def _with_parents(live: Live, entries: Sequence[ModuleEntry]) -> list[ModuleEntry]:
    """Return these modules and their parents, in the plan's order."""
    keys = {key for entry in entries for key in live.description.chain(tuple(entry.groups))}
    return [entry for entry in live.description.modules if entry.key in keys]


def _read(folder: RunFolder, live: Live, entries: Sequence[ModuleEntry], found: Found) -> dict[str, Manifest]:
    """Return the manifests of modules whose tensors are whole; add those that are damaged to `found`."""
    claims = {}
    for entry in entries:
        if entry.key in found:
            continue
        # Read again, for the hash that is compared, and because a remote store's tensors were not read yet.
        reading = read_module(folder, live.description, entry)
        if isinstance(reading, Manifest):
            claims[entry.key] = reading
        elif not isinstance(reading, MissingModule):  # a parent that was never trained
            damaged = ModuleHealth(folder.path, entry, "damaged", reason_of(reading, entry.key))
            found |= _verdict(entry, "damaged", damaged.told)
    return claims


def _compared(
    entries: Sequence[ModuleEntry],
    claims: Mapping[str, Manifest],
    unbuilt: NotRebuilt,
    rebuilt: Modules,
) -> Found:
    found: Found = {}
    for entry in entries:
        if entry.key not in claims:
            continue  # trained again only for the modules above it
        if tuple(entry.groups) in unbuilt:
            found |= _verdict(entry, *unbuilt[tuple(entry.groups)])
        else:
            rebuilt.get(entry.key)  # raises unless the bytes are those of the manifest that is compared next
            comparison = compare(claims[entry.key], rebuilt.manifest(entry.key))
            found |= _verdict(entry, comparison.verdict, comparison.reason)
    return found


@contextmanager
def _stopped_by_request(folder: RunFolder, live: Live) -> Iterator[Callable[[], None]]:
    """Yield a check that raises once a request has arrived; explain errors that come of one.

    A record that was deleted since must not be trained on any more, and the deletion has destroyed the
    folder's content.
    """

    def check() -> None:
        if folder.live().last_request != live.last_request:
            raise InputError(
                f"{folder.path}: a deletion came in meanwhile, so nothing was verified; verify again"
            )

    # First now: a request that comes from here on finds the folder, and one that came before is seen here.
    check()
    try:
        yield check
    except Exception:
        check()
        raise


@contextmanager
def _private_folder(folder: RunFolder, live: Live, keep: Path | None) -> Iterator[Path]:
    """Create a folder that only its owner can read, and remove it at the end, unless it is `keep`."""
    if keep is None:
        with work_folder(folder.path, "verification", live.position) as path:
            yield path
        return
    # An existing folder is an error: files in it could take part in the proof.
    keep.mkdir(mode=0o700)
    yield keep
