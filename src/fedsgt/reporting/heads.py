"""Heads that a run solves from statistics: what they are solved from, what is missing (definition 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedsgt.plans import FLOOR, MERGED, Prefix, choose_solved
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.records_left import records_left
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import missing_statistics, note_of, records_behind, statistics_in_force
from fedsgt.serving.heads import solves
from fedsgt.words import counted, shown_bytes

TRAINED = "trained ones answer while a module is live"


@dataclass(frozen=True)
class HeadsStatus:
    """Statistics that count now, from which heads are solved."""

    records: int
    """Number of records behind the bare backbone's head; 0 if it has none, so that trained heads answer."""
    clients: int
    """Number of clients whose statistics are in that head."""
    chains: int
    """Number of chains of modules that have statistics, the bare backbone among them."""
    statistics: int
    missing: int
    """Number of statistics that are wanted and not there."""
    bytes: int
    """Size of the statistics on disk."""
    floor: float
    """Weight of the bare backbone's head in an answer; 0 if it has none."""
    damaged: int = 0
    """Number of statistics whose header cannot be read, or whose file has another size than it says."""

    @property
    def in_force(self) -> bool:
        """Whether solved heads answer; the bare backbone then answers as long as a record is left."""
        return self.records > 0

    def to_json(self) -> dict[str, Any]:
        """Return the facts for programs."""
        return {**asdict(self), "in_force": self.in_force}

    def words(self) -> str:
        """Return the facts in one sentence."""
        if not self.statistics and not self.missing:
            return "none answers: no record is left to solve one from"
        if not self.statistics:
            return f"none is solved: no statistic is there, {self._missing()}; {TRAINED}"
        of = f"{counted(self.statistics, 'statistic')} of {counted(self.chains, 'chain')}"
        where = f"{of} ({shown_bytes(self.bytes)}), {self._missing()}"
        if not self.in_force:
            return f"none is solved: the bare backbone has no statistic; {TRAINED}; {where}"
        return (
            f"solved from {counted(self.records, 'record')} of {counted(self.clients, 'client')}, the bare "
            f"backbone's with weight {self.floor:.2g}; {where}"
        )

    @property
    def lost(self) -> str | None:
        """Statistics that `fedsgt heads` makes, in words; None if none is missing or seen to be damaged."""
        what = [name for name, number in (("missing", self.missing), ("damaged", self.damaged)) if number]
        return counted(self.missing + self.damaged, f"{' or '.join(what)} statistic") if what else None

    def _missing(self) -> str:
        damaged = f", {self.damaged} damaged" if self.damaged else ""
        return f"{self.missing or 'none'} missing{damaged}"


def heads_status(folder: RunFolder, live: Live, prefixes: Sequence[Prefix]) -> HeadsStatus | None:
    """Return the facts on a run's solved heads in this state; None if its trained heads are to answer."""
    if not solves(folder.config):
        return None
    there = statistics_in_force(folder, live)
    notes = {name: note_of(folder, name) for chain in there.values() for name in chain}
    bare = [note for name in there.get(BARE, ()) if (note := notes[name]) is not None]
    records = sum(note.records for note in bare)
    chosen = choose_solved(folder.config.serving.strategy, prefixes) if records else []
    return HeadsStatus(
        records=records,
        clients=len(bare),
        chains=len(there),
        statistics=len(notes),
        missing=sum(map(len, missing_statistics(folder, live).values())),
        damaged=sum(note is None for note in notes.values()),
        bytes=sum(_size(folder, name.file) for name in notes),
        floor=sum(weight for index, _, weight in chosen if index == FLOOR),
    )


def solved_heads_answer(folder: RunFolder, live: Live) -> bool:
    """Whether the bare backbone has a solved head, so that something answers whatever modules die."""
    if not solves(folder.config):
        return False
    return records_behind(folder, statistics_in_force(folder, live)) > 0


def trained_heads_serve(folder: RunFolder) -> bool:
    """Whether the heads that answer are trained ones, whatever statistics there are.

    That is so by the run's settings, and for `merged` while a module is live.
    """
    merged = folder.config.serving.strategy == MERGED
    live = folder.live()
    return not solves(folder.config) or (merged and any(live.prefixes(folder.present())))


def a_record_is_left(live: Live) -> bool:
    """Whether deletions have left a record, from which a head can be solved."""
    return any(any(records_left(live, number)) for number in range(len(live.description.clients)))


def _size(folder: RunFolder, file: str) -> int:
    try:
        return (folder.path / file).stat().st_size
    except OSError:  # a deletion has just destroyed it
        return 0
