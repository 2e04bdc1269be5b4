"""Verification of statistics: each that counts is made again from retained records, and compared by hash."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fedsgt.proof.rebuild_process import NotRebuilt, Verdict
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.description import ModuleEntry
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records_left import records_left
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import (
    StatisticName,
    StatisticNote,
    note_of,
    present_statistics,
    read_statistic,
    statistics_in_force,
)
from fedsgt.words import counted


@dataclass(frozen=True)
class VerifiedStatistic:
    """A statistic with its verdict, and the reason in one line."""

    file: str
    """Name of the file in the run's folder."""
    groups: tuple[int, ...] | None
    """Groups of its chain, none for the bare backbone; None if the run has no such chain."""
    client: str
    """Name of the client whose records it is of."""
    verdict: Verdict
    reason: str


@dataclass
class StatisticCheck:
    """Judges the statistics of a run at one state, before and after they are made again."""

    folder: RunFolder
    live: Live
    sample: Sequence[ModuleEntry] | None
    """Modules whose statistics are looked at, besides those of the bare backbone; None for all."""
    found: dict[StatisticName, VerifiedStatistic] = field(default_factory=dict)
    claims: dict[StatisticName, StatisticNote] = field(default_factory=dict)
    """Header of each statistic that is to be made again; its tensors have the hash that it names."""

    def __post_init__(self) -> None:
        keys = self.live.description.keys
        self.groups = {key: groups for groups, key in keys.items()} | {BARE: ()}

    @property
    def verified(self) -> tuple[VerifiedStatistic, ...]:
        """Return the verdicts, in the order of the files."""
        return tuple(self.found[name] for name in sorted(self.found))

    def read(self, rebuilt: Collection[str]) -> list[StatisticName]:
        """Return the statistics to make again, given the keys of the modules that are trained again.

        Those that are wrong without that are judged.
        """
        counting = [name for names in statistics_in_force(self.folder, self.live).values() for name in names]
        # Each of these was to go with a deletion, which the sample has no say in.
        for name in present_statistics(self.folder).difference(counting):
            self._judge(name, "not destroyed", "a deletion has ended it, and it is still there")
        chosen = None if self.sample is None else {entry.key for entry in self.sample} | {BARE}
        for name in counting:
            if chosen is not None and name.chain not in chosen:
                continue
            whole = read_statistic(self.folder, name)
            note = note_of(self.folder, name)
            if whole is None or note is None:
                remedy = f"fedsgt heads {self.folder.path} makes it again"
                self._judge(name, "damaged", f"it is not as it was written; {remedy}")
            elif not any(records_left(self.live, name.client)):
                self._judge(name, "different", "the client has no record left")
            elif name.chain not in (*rebuilt, BARE):
                self._judge(name, "not comparable", "its module is not there, or damaged")
            else:
                self.claims[name] = note
        return list(self.claims)

    def compare(self, rebuilt: RunFolder, unbuilt: NotRebuilt) -> None:
        """Judge the statistics that were made again in that folder."""
        for name, ours in self.claims.items():
            theirs = note_of(rebuilt, name)
            self._judge(name, *self._comparison(name, ours, theirs, unbuilt))

    def _comparison(
        self, name: StatisticName, ours: StatisticNote, theirs: StatisticNote | None, unbuilt: NotRebuilt
    ) -> tuple[Verdict, str]:
        groups = self.groups[name.chain]
        if groups in unbuilt:
            return unbuilt[groups]
        if theirs is None:
            return "not comparable", "the client did not send it again"
        if ours.sha256 == theirs.sha256:
            return "same", f"both hash to {ours.sha256}"
        unlike = [part for part in ours.machine if ours.machine[part] != theirs.machine.get(part)]
        if unlike:
            return "not comparable", f"made on another machine: its {unlike[0]} differs"
        records = counted(theirs.records, "retained record")
        hashes = f"hash {ours.sha256} against {theirs.sha256}"
        return "different", f"not that of the client's {records} under these modules: {hashes}"

    def _judge(self, name: StatisticName, verdict: Verdict, reason: str) -> None:
        clients = self.live.description.clients
        client = clients[name.client].name if name.client < len(clients) else f"number {name.client}"
        groups = self.groups.get(name.chain)
        self.found[name] = VerifiedStatistic(name.file, groups, client, verdict, reason)
