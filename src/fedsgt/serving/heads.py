"""Heads that serve: solved from the statistics that count at this moment (definition 10).

A head is a function of live modules and of retained records. It is kept in memory only, and solved anew as
soon as one of its statistics stops counting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.config import Config
from fedsgt.plans import MERGED, Choice, Prefix, choose, choose_solved
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import (
    StatisticName,
    chain_name,
    counts_in,
    note_of,
    statistics_in_force,
    sum_of,
)
from fedsgt.serving.answer import Floats
from fedsgt.stack.ridge import SolvedHead, solve
from fedsgt.words import counted

LINES = 10  # most clients with damaged statistics that are told in words; JSON has all


@dataclass(frozen=True)
class DamagedStatistic:
    """A statistic that counts and is not as it was written, so that no head is solved from it."""

    client: str
    """Name of the client whose records heads do without."""
    file: str
    """Name of the file in the run's folder."""

    def to_json(self) -> dict[str, Any]:
        """Return client and file for programs."""
        return asdict(self)


def damaged_lines(path: Path, damaged: Iterable[DamagedStatistic]) -> list[str]:
    """Return a line for each client with damaged statistics, and how to make them again."""
    numbers = Counter(one.client for one in damaged)
    lines = [
        f"{counted(number, 'statistic')} of client {client} {'is' if number == 1 else 'are'} damaged; "
        f"fedsgt heads {path} makes {'it' if number == 1 else 'them'} again"
        for client, number in numbers.items()
    ]
    more = [f"and those of {counted(len(lines) - LINES, 'more client')}"] if len(lines) > LINES else []
    return lines[:LINES] + more


@dataclass(frozen=True)
class Heads:
    """Solved heads of some chains at one state of the run; without any, trained heads answer."""

    by_chain: Mapping[Prefix, SolvedHead] = field(default_factory=dict)
    """By the groups of the chain; the bare backbone's has none."""
    marks: Mapping[int, str] = field(default_factory=dict)
    """Marks of the clients whose statistics are in any of them."""
    records: int = 0
    """Number of records behind the bare backbone's head."""
    left_out: tuple[StatisticName, ...] = ()
    """Statistics of these chains that counted and could not be read whole."""

    @property
    def in_force(self) -> bool:
        """Whether solved heads answer: the bare backbone has one as long as a record is left."""
        return () in self.by_chain

    def count(self, live: Live) -> bool:
        """Whether all statistics that they were solved from still count."""
        return all(live.mark_of(number) == mark for number, mark in self.marks.items())

    def damaged(self, live: Live) -> tuple[DamagedStatistic, ...]:
        """Return the statistics that were left out and count in this state still, so that they are damaged.

        Those that a deletion has ended meanwhile were destroyed with it.
        """
        clients = live.description.clients
        return tuple(
            DamagedStatistic(clients[name.client].name, name.file)
            for name in self.left_out
            if counts_in(live, name)
        )

    def choose(self, strategy: str, prefixes: Iterable[Prefix]) -> list[Choice]:
        """Return the chains that serve with their weights, the bare backbone last if it has a head."""
        return choose_solved(strategy, prefixes) if self.in_force else choose(strategy, prefixes)

    def probabilities(self, prefix: Prefix, trained: Floats, features: Floats | None) -> NDArray[np.float64]:
        """Return class probabilities under a chain: by its solved head, else those of its trained one."""
        head = self.by_chain.get(prefix)
        if head is None or features is None:
            return trained.astype(np.float64)
        return head.probabilities(features)


NO_HEADS = Heads()


def solves(config: Config) -> bool:
    """Whether the run's settings let solved heads answer."""
    return config.heads.solve and config.serving.heads == "statistics"


Parts: TypeAlias = tuple[tuple[StatisticName, str], ...]
"""A chain's statistics that count, each with the hash of its tensors: another one may get the same name."""


@dataclass(frozen=True)
class _Known:
    """A chain's head; None if its statistics cannot be read."""

    asked: Parts
    """Statistics that were to be read."""
    used: tuple[StatisticName, ...]
    """Those of them that are whole."""
    head: SolvedHead | None
    records: int
    at: Live
    """State in which it was solved."""

    @property
    def left_out(self) -> list[StatisticName]:
        """Statistics that were to be read and are not whole."""
        if len(self.used) == len(self.asked):
            return []
        used = set(self.used)
        return [name for name, _ in self.asked if name not in used]

    def counts(self, live: Live) -> bool:
        """Whether all statistics that it was solved from still count."""
        return all(live.mark_of(name.client) == name.mark for name in self.used)

    def serves(self, live: Live, parts: Parts) -> bool:
        """Whether it is that of these statistics; damaged ones may have been made anew with each entry."""
        return self.asked == parts and (len(self.used) == len(parts) or self.at is live)


class HeadSolver:
    """Solves heads, and solves one again only if its statistics have changed; threads may share it."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.known: dict[str, _Known] = {}
        self.last: tuple[Live, tuple[Prefix, ...], Heads] | None = None
        self.now: Live | None = None
        """State that was told last, after which no head of an earlier one is kept."""
        self.alive: frozenset[str] = frozenset()
        """Names of the chains that are live in that state."""
        self.listed: tuple[Live, Mapping[str, Sequence[StatisticName]], dict[str, Parts]] | None = None
        # Held for a look at what is known, and never while a head is solved.
        self.lock = Lock()

    def solve(self, live: Live, prefixes: Iterable[Prefix]) -> Heads:
        """Return the heads of these chains and of the bare backbone, as far as there are statistics."""
        chains = _with_bare(prefixes)
        last = self._last(live, chains)
        if last is not None:
            return last
        for prefix in chains:
            self._learn(live, chain_name(live, prefix))
            if self._is_past(live):
                break  # a deletion has come in, and the caller will ask again
        return self._remember(live, chains)

    def ready(self, live: Live, prefixes: Iterable[Prefix]) -> Heads | None:
        """Return what `solve` would, if no head has to be solved for it; else None."""
        chains = _with_bare(prefixes)
        last = self._last(live, chains)
        if last is not None:
            return last
        parts = {chain: self._parts(live, chain) for chain in (chain_name(live, prefix) for prefix in chains)}
        with self.lock:
            known = all(not found or self._has(live, chain, found) for chain, found in parts.items())
        return self._remember(live, chains) if known else None

    def keep(self, live: Live) -> None:
        """Remove from memory all heads of dead chains, and those with a statistic that counts no more."""
        with self.lock:
            self.now, self.alive = live, frozenset(entry.key for entry in live.modules()) | {BARE}
            if self.last is not None and not self._allows_all(self.last[0], self.last[2]):
                self.last = None
            self.known = {chain: held for chain, held in self.known.items() if self._allows(chain, held)}

    def _last(self, live: Live, chains: tuple[Prefix, ...]) -> Heads | None:
        """Return the heads that were returned last if they are those of this state and these chains."""
        last = self.last
        # The state is another object as soon as the ledger has a new entry, such as one of new statistics.
        return last[2] if last is not None and last[0] is live and last[1] == chains else None

    def _parts(self, live: Live, chain: str) -> Parts:
        """Return the chain's statistics that count; files are looked at once in each state."""
        listed = self.listed
        if listed is None or listed[0] is not live:
            self.listed = listed = live, statistics_in_force(self.folder, live), {}
        _, there, known = listed
        if chain not in known:
            notes = ((name, note_of(self.folder, name)) for name in there.get(chain, ()))
            known[chain] = tuple((name, note.sha256 if note else "") for name, note in notes)
        return known[chain]

    def _remember(self, live: Live, chains: tuple[Prefix, ...]) -> Heads:
        """Return the heads of these chains that are known."""
        parts = {prefix: self._parts(live, chain_name(live, prefix)) for prefix in chains}
        found: dict[Prefix, SolvedHead] = {}
        marks: dict[int, str] = {}
        left_out: list[StatisticName] = []
        records = 0
        with self.lock:
            for prefix in chains:
                held = self.known.get(chain_name(live, prefix))
                if held is None or not held.serves(live, parts[prefix]):
                    continue
                left_out += held.left_out
                if held.head is None:
                    continue
                found[prefix] = held.head
                marks |= {name.client: name.mark for name in held.used}
                records = records if prefix else held.records
            # Without a head of the bare backbone trained heads answer.
            solved = Heads(found, marks, records) if () in found else NO_HEADS
            heads = replace(solved, left_out=tuple(left_out))
            if self._allows_all(live, heads):
                self.last = live, chains, heads
        return heads

    def _learn(self, live: Live, chain: str) -> None:
        """Solve a chain's head unless it is known."""
        parts = self._parts(live, chain)
        with self.lock:
            if not parts or self._has(live, chain, parts):
                return
        total, used = sum_of(self.folder, [name for name, _ in parts])
        head, records = None, 0
        if total is not None and total.records:
            ridge = self.folder.config.heads.ridge
            head, records = solve(total, None if ridge == "gcv" else ridge), total.records
        held = _Known(parts, tuple(used), head, records, live)
        with self.lock:
            # A deletion that came in meanwhile must not find the head in memory afterwards.
            if self._allows(chain, held):
                self.known[chain] = held

    def _has(self, live: Live, chain: str, parts: Parts) -> bool:
        return chain in self.known and self.known[chain].serves(live, parts)

    def _allows(self, chain: str, held: _Known) -> bool:
        """Whether a head may be kept in memory, by the state that was told last."""
        return self.now is None or (chain in self.alive and held.counts(self.now))

    def _allows_all(self, live: Live, heads: Heads) -> bool:
        """Whether all these heads, whose chains have their names at `live`, may be kept in memory."""
        if self.now is None:
            return True
        return heads.count(self.now) and self.alive.issuperset(
            chain_name(live, one) for one in heads.by_chain
        )

    def _is_past(self, live: Live) -> bool:
        """Whether a later state was told in which a client's statistics do not count any more."""
        now = self.now
        clients = range(len(live.description.clients))
        return now is not None and now is not live and any(now.mark_of(n) != live.mark_of(n) for n in clients)


class BackgroundSolver:
    """Solves heads in a thread, so that an answer does not wait for them (`Predictor(background=True)`)."""

    def __init__(self, solver: HeadSolver) -> None:
        self.solver = solver
        self.thread: Thread | None = None
        self.error: Exception | None = None

    def solve(self, live: Live, prefixes: Sequence[Prefix]) -> Heads:
        """Return the heads if they are solved, and have them solved otherwise.

        Meanwhile those of fewer statistics answer if these still count, or else the trained ones. If no
        module is live there is nothing else to answer, and the bare backbone's head is waited for.
        """
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        ready = self.solver.ready(live, prefixes)
        if ready is not None:
            return ready
        if not prefixes:
            return self.solver.solve(live, prefixes)
        last = self.solver.last
        if self.thread is None or not self.thread.is_alive():
            self.thread = Thread(target=self._solve, args=(live, tuple(prefixes)), daemon=True)
            self.thread.start()
        # Prefixes name chains, and only under one description the same ones.
        if last is not None and last[0].description is live.description and last[2].count(live):
            return last[2]
        return NO_HEADS

    def keep(self, live: Live) -> None:
        """Remove from memory all heads that have a statistic which does not count any more."""
        self.solver.keep(live)

    def _solve(self, live: Live, prefixes: Sequence[Prefix]) -> None:
        try:
            self.solver.solve(live, prefixes)
        except Exception as error:  # told to whoever asks next
            self.error = error


def _with_bare(prefixes: Iterable[Prefix]) -> tuple[Prefix, ...]:
    """Return the chains, the bare backbone first."""
    return tuple(dict.fromkeys([(), *prefixes]))


def solved_with(strategy: str, prefixes: Sequence[Prefix]) -> list[Prefix]:
    """Return the chains of a strategy whose heads are solved: none for `merged`, which has trained ones."""
    return [] if strategy == MERGED else [prefix for _, prefix, _ in choose(strategy, prefixes)]
