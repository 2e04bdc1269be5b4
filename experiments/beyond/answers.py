"""Accuracy along a stream of requests: by the heads that were trained, and by heads solved anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from experiments.beyond.features import Features, Integers, Prefix
from experiments.harness.deleting import SHARE
from experiments.harness.requests import Request, Stream, hit
from fedsgt.plans import choose, choose_solved
from fedsgt.plans.selection import live_prefix
from fedsgt.serving.answer import Floats, mix_known
from fedsgt.stack.ridge import solve
from fedsgt.stack.statistics import Statistic

HEADS = ("trained", "ridge", "solved")
"""The paper's AllSeq, which answers by chance once no module is live; the bare backbone alone; both."""
BITS = 16


@dataclass(frozen=True)
class State:
    """A run after some requests."""

    dead: frozenset[int]
    """Groups that were hit."""
    gone: tuple[int, ...]
    """Rows of deleted training records."""


class Answers:
    """Answers of a run for its test records, in every state of a stream."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.labels = features.folder.description.labels
        self.sequences = features.folder.description.plan_made().sequences
        self.groups_of = features.folder.description.groups_of
        self.right = np.array(features.test.labels)
        self.whole: dict[Prefix, Statistic] = {}
        self.solved: dict[tuple[State, Prefix], Floats] = {}

    def states(self, stream: Stream) -> Iterator[State]:
        """Yield the state before any request, after one, and so on."""
        rows = self.features.train.rows
        left = {place: list(own) for place, own in rows.items()}
        state = State(frozenset(), ())
        yield state
        for request in stream:
            taken: list[int] = []
            for index in request.slices:
                own = left[request.client, index]
                count = _asked(request, len(rows[request.client, index]))
                taken += own[:count]
                del own[:count]
            state = State(state.dead | hit(request, self.groups_of), (*state.gone, *taken))
            yield state

    def live(self, state: State) -> list[Prefix]:
        return [live_prefix(order, state.dead) for order in self.sequences]

    def accuracies(self, state: State) -> dict[str, float]:
        """Return the accuracy by each kind of head; all chains' features must be there."""
        prefixes = self.live(state)
        chosen = choose("all", prefixes)
        trained = {prefix: self.features.chain(prefix).trained for _, prefix, _ in chosen}
        solved = {prefix: self._by_solved(state, prefix) for prefix in (*trained, ())}
        served = {"ridge": solved[()], "solved": mix_known(solved, choose_solved("all", prefixes))}
        if chosen:
            served["trained"] = mix_known(trained, chosen)
        found = {name: self._accuracy(answer) for name, answer in served.items()}
        return {"trained": 1 / self.labels} | found

    def by_depth(self, prefixes: Iterable[Prefix]) -> dict[str, dict[str, float]]:
        """Return the mean accuracy of chains alone, by their depth, before any request."""
        nothing = State(frozenset(), ())
        found: dict[str, dict[int, list[float]]] = {"trained": {}, "solved": {}}
        for prefix in prefixes:
            for heads, answer in (
                ("trained", self.features.chain(prefix).trained),
                ("solved", self._by_solved(nothing, prefix)),
            ):
                found[heads].setdefault(len(prefix), []).append(self._accuracy(answer))
        return {
            heads: {str(depth): round(float(np.mean(values)), 5) for depth, values in sorted(depths.items())}
            for heads, depths in found.items()
        }

    def _by_solved(self, state: State, prefix: Prefix) -> Floats:
        # A chain's head depends on the records that are left, not on which other groups are dead.
        key = State(frozenset(), state.gone), prefix
        if key not in self.solved:
            head = solve(self._retained(state, prefix))
            self.solved[key] = head.probabilities(self.features.chain(prefix).test).astype(np.float32)
        return self.solved[key]

    def _retained(self, state: State, prefix: Prefix) -> Statistic:
        if prefix not in self.whole:
            self.whole[prefix] = self._statistic(prefix, np.arange(len(self.features.train.labels)))
        whole = self.whole[prefix]
        return whole - self._statistic(prefix, np.array(state.gone)) if state.gone else whole

    def _statistic(self, prefix: Prefix, rows: Integers) -> Statistic:
        chosen = self.features.chain(prefix).train[rows]
        return Statistic.of(chosen, self.features.train.labels[rows].tolist(), self.labels, BITS)

    def _accuracy(self, answer: Floats) -> float:
        return float((answer.argmax(axis=-1) == self.right).mean())


def _asked(request: Request, records: int) -> int:
    """Return how many records of a slice are asked for: a tenth, as in the paper, or all of a client's."""
    return records if request.whole else max(1, records // SHARE)
