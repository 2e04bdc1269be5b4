"""Statistics that a deletion ends, taken into memory before their files are destroyed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace

from fedsgt.data import Client
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import NOTHING_DELETED, DeletedData, Live
from fedsgt.runs.statistics import Basis, StatisticName, note_of, read_statistic, statistics_in_force
from fedsgt.stack import profile
from fedsgt.stack.statistics import Statistic
from fedsgt.unlearning.erase import SourceReader

MOST_BYTES = 256 << 20  # of statistics in memory; those beyond are made anew


@dataclass
class Outgoing:
    """Statistics that a deletion has ended, and what is needed to take the deleted records out of them."""

    statistics: dict[StatisticName, Statistic] = field(default_factory=dict, repr=False)
    bases: dict[StatisticName, Basis] = field(default_factory=dict, repr=False)
    """Hashes of all that each was made of."""
    before: dict[int, DeletedData] = field(default_factory=dict, repr=False)
    """Data that their clients had had deleted before, by the number of the client."""
    clients: dict[int, Client] = field(default_factory=dict, repr=False)
    """Clients with the records of the source, if it is about to lose the deleted ones."""

    def take(self, folder: RunFolder, before: Live, reader: SourceReader) -> None:
        """Take the statistics that counted before the request that was accepted last, and do not count now.

        Nothing depends on it, so errors are of no importance: what is not taken is made anew.
        """
        with suppress(Exception):
            self._take(folder, before, reader)

    def _take(self, folder: RunFolder, before: Live, reader: SourceReader) -> None:
        if not folder.config.heads.solve or folder.config.data.partition == "remote":
            return
        now = folder.live()
        hit = {number for number in now.deleted if before.mark_of(number) != now.mark_of(number)}
        # A tombstone leaves the records in the source, where they are read once the request is answered.
        if folder.config.data.erase == "rewrite":
            reader.read(now)
            self.clients = {number: reader.client(number) for number in hit}
        self.before = {number: before.deleted.get(number, NOTHING_DELETED) for number in hit}
        alive, size, here = {entry.key for entry in now.modules()} | {BARE}, 0, profile.machine()
        for chain, names in statistics_in_force(folder, before).items():
            for name in names if chain in alive else ():
                note = note_of(folder, name) if name.client in hit and size < MOST_BYTES else None
                # Another machine may round otherwise, and a part of the deleted records would stay behind.
                ours = note is not None and note.machine == here
                found = read_statistic(folder, name) if ours else None
                if found is not None and note is not None:
                    self.statistics[name], self.bases[name] = found, note.basis
                    size += found.gram.nbytes + found.cross.nbytes

    def of(self, name: StatisticName, basis: Basis) -> Statistic | None:
        """Return the statistic that this one takes the place of, if it was made of this basis."""
        mark = self.before[name.client].mark if name.client in self.before else ""
        before = replace(name, mark=mark)
        return self.statistics.get(before) if self.bases.get(before) == basis else None
