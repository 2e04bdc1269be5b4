"""Heads that serve: solved from the statistics that count at this moment (definition 10).

A head is a function of live modules and of retained records. It is kept in memory only, and solved anew as
soon as one of its statistics stops counting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock, Thread

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
    statistics_in_force,
    sum_of,
)
from fedsgt.serving.answer import Floats
from fedsgt.stack.ridge import SolvedHead, solve


@dataclass(frozen=True)
class Heads:
    """Solved heads of some chains at one state of the run; without any, trained heads answer."""

    by_chain: Mapping[Prefix, SolvedHead] = field(default_factory=dict)
    """By the groups of the chain; the bare backbone's has none."""
    marks: Mapping[int, str] = field(default_factory=dict)
    """Marks of the clients whose statistics are in any of them."""
    records: int = 0
    """Number of records behind the bare backbone's head."""

    @property
    def in_force(self) -> bool:
        """Whether solved heads answer: the bare backbone has one as long as a record is left."""
        return () in self.by_chain

    def count(self, live: Live) -> bool:
        """Whether all statistics that they were solved from still count."""
        return all(live.mark_of(number) == mark for number, mark in self.marks.items())

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


@dataclass(frozen=True)
class _Known:
    """A chain's head; None if its statistics cannot be read."""

    asked: tuple[StatisticName, ...]
    """Statistics that were to be read."""
    used: tuple[StatisticName, ...]
    """Those of them that are whole."""
    head: SolvedHead | None
    records: int
    at: Live
    """State in which it was solved."""

    def counts(self, live: Live) -> bool:
        """Whether all statistics that it was solved from still count."""
        return all(live.mark_of(name.client) == name.mark for name in self.used)

    def serves(self, live: Live, names: tuple[StatisticName, ...]) -> bool:
        """Whether it is that of these statistics; damaged ones may have been made anew with each entry."""
        return self.asked == names and (self.used == names or self.at is live)


class HeadSolver:
    """Solves heads, and solves one again only if its statistics have changed; threads may share it."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.known: dict[str, _Known] = {}
        self.last: tuple[Live, tuple[Prefix, ...], Heads] | None = None
        self.now: Live | None = None
        """State that was told last, after which no head of an earlier one is kept."""
        # Held for a look at what is known, and never while a head is solved.
        self.lock = Lock()

    def solve(self, live: Live, prefixes: Iterable[Prefix]) -> Heads:
        """Return the heads of these chains and of the bare backbone, as far as there are statistics."""
        chains, last = _with_bare(prefixes), self.last
        # The state is another object as soon as the ledger has a new entry, such as one of new statistics.
        if last is not None and last[0] is live and last[1] == chains:
            return last[2]
        there = statistics_in_force(self.folder, live)
        for prefix in chains:
            self._learn(live, chain_name(live, prefix), there)
            if self._is_past(live):
                break  # a deletion has come in, and the caller will ask again
        return self._remember(live, chains, there)

    def ready(self, live: Live, prefixes: Iterable[Prefix]) -> Heads | None:
        """Return what `solve` would, if no head has to be solved for it; else None."""
        chains, there = _with_bare(prefixes), statistics_in_force(self.folder, live)
        names = {chain: _key(there, chain) for chain in (chain_name(live, prefix) for prefix in chains)}
        with self.lock:
            known = all(not key or self._has(live, chain, key) for chain, key in names.items())
        return self._remember(live, chains, there) if known else None

    def keep(self, live: Live) -> None:
        """Remove from memory all heads that have a statistic which does not count any more."""
        alive = {entry.key for entry in live.modules()} | {BARE}
        with self.lock:
            self.now = live
            if self.last is not None and not self.last[2].count(live):
                self.last = None
            self.known = {
                chain: held for chain, held in self.known.items() if chain in alive and held.counts(live)
            }

    def _remember(
        self, live: Live, chains: tuple[Prefix, ...], there: Mapping[str, Sequence[StatisticName]]
    ) -> Heads:
        """Return the heads of these chains that are known."""
        found: dict[Prefix, SolvedHead] = {}
        marks: dict[int, str] = {}
        records = 0
        with self.lock:
            for prefix in chains:
                chain = chain_name(live, prefix)
                held = self.known.get(chain)
                if held is None or held.head is None or not held.serves(live, _key(there, chain)):
                    continue
                found[prefix] = held.head
                marks |= {name.client: name.mark for name in held.used}
                records = held.records if chain == BARE else records
            heads = Heads(found, marks, records) if () in found else NO_HEADS
            if self.now is None or heads.count(self.now):
                self.last = live, chains, heads
        return heads

    def _learn(self, live: Live, chain: str, there: Mapping[str, Sequence[StatisticName]]) -> None:
        """Solve a chain's head unless it is known."""
        names = _key(there, chain)
        with self.lock:
            if not names or self._has(live, chain, names):
                return
        total, used = sum_of(self.folder, names)
        head, records = None, 0
        if total is not None and total.records:
            ridge = self.folder.config.heads.ridge
            head, records = solve(total, None if ridge == "gcv" else ridge), total.records
        held = _Known(names, tuple(used), head, records, live)
        with self.lock:
            # A deletion that came in meanwhile must not find the head in memory afterwards.
            if self.now is None or held.counts(self.now):
                self.known[chain] = held

    def _has(self, live: Live, chain: str, names: tuple[StatisticName, ...]) -> bool:
        return chain in self.known and self.known[chain].serves(live, names)

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


def _key(there: Mapping[str, Sequence[StatisticName]], chain: str) -> tuple[StatisticName, ...]:
    return tuple(there.get(chain, ()))


def solved_with(strategy: str, prefixes: Sequence[Prefix]) -> list[Prefix]:
    """Return the chains of a strategy whose heads are solved: none for `merged`, which has trained ones."""
    return [] if strategy == MERGED else [prefix for _, prefix, _ in choose(strategy, prefixes)]
