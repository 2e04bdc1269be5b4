"""The time left is within a factor of two after the first tenth, for trainings of very different shapes.

Trainings are simulated under a clock of the test's own: workers that take jobs in turn, with costs that are
not those that the estimate supposes.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from fedsgt.engine.events import ClientUpdated, Event, RoundFinished, WorkBegun
from fedsgt.engine.rounds import client_order
from fedsgt.engine.tally import Tally
from fedsgt.engine.time_left import ShareTime

GROUPS = 6
ROTATIONS = [tuple((first + step) % GROUPS for step in range(GROUPS)) for first in range(GROUPS)]


def alike(depth: int, client: str) -> float:
    return 1.0


@dataclass(frozen=True)
class Shape:
    """A training: what there is to do, how long each part takes, and when it is told."""

    sequences: list[tuple[int, ...]] = field(default_factory=lambda: ROTATIONS)
    clients: int = 8
    rounds: int = 1
    done_rounds: int = 0
    """Rounds of each first module that an earlier training has finished."""
    workers: int = 2
    start: float = 3.0
    """Seconds until workers have started."""
    training: float = 0.01
    """Seconds to train on a record."""
    preparing: float = 0.0005
    """Seconds to prepare a record at its first use."""
    averaging: float = 0.1
    """Seconds from a round's last update to the next round."""
    factor: Callable[[int, str], float] = alike
    """Factor on the training, by depth and client."""
    bursts: bool = False
    """Whether the updates of a round are told together at its end."""


def sizes(shape: Shape) -> dict[tuple[str, int], int]:
    """Return the records of each client in each group: some have many, some none."""
    rng = random.Random(3)
    names = [f"c{number}" for number in range(shape.clients)]
    return {(name, group): rng.choice((0, 10, 20, 60)) for name in names for group in range(GROUPS)}


def records(held: dict[tuple[str, int], int], prefix: tuple[int, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for (client, group), number in held.items():
        if group in prefix and number:
            found[client] = found.get(client, 0) + number
    return found


def simulate(shape: Shape) -> tuple[WorkBegun, list[tuple[float, Event]], float]:
    """Return the work, all further events with their times, and the time of the end."""
    held = sizes(shape)
    prefixes = list(
        dict.fromkeys(order[:depth] for depth in range(1, GROUPS + 1) for order in shape.sequences)
    )
    begun = WorkBegun(
        len(prefixes),
        shape.rounds,
        sum(sum(records(held, prefix).values()) for prefix in prefixes) * shape.rounds,
        tuple(shape.sequences),
        (),
        sum(held.values()),
        shape.workers,
    )
    free = [shape.start] * shape.workers
    ready = {prefix: 0.0 if len(prefix) == 1 else None for prefix in prefixes}
    used: set[tuple[str, int]] = set()
    told: list[tuple[float, Event]] = []
    waiting = list(prefixes)
    while waiting:
        # The module that can begin first, in the plan's order among equals.
        prefix = min((p for p in waiting if ready[p] is not None), key=lambda p: ready[p] or 0.0)
        waiting.remove(prefix)
        at, key = ready[prefix] or 0.0, "".join(map(str, prefix))
        for number in range(shape.done_rounds if len(prefix) == 1 else 0, shape.rounds):
            ends, updates = [at], []
            asked = records(held, prefix)
            for client in client_order(asked):
                count = asked[client]
                new = [(client, group) for group in prefix if (client, group) not in used]
                used.update(new)
                preparing = shape.preparing * sum(held[place] for place in new)
                seconds = shape.training * count * shape.factor(len(prefix), client)
                end = max(heapq.heappop(free), at) + preparing + seconds
                heapq.heappush(free, end)
                ends.append(end)
                update = ClientUpdated(key, prefix, client, number + 1, count, seconds, None, preparing)
                updates.append((end, update))
            told += [(max(ends) if shape.bursts else end, event) for end, event in updates]
            told.append((max(ends), RoundFinished(key, prefix, number + 1, None, 0.0)))
            at = max(ends) + shape.averaging
        for child in waiting:
            if child[:-1] == prefix:
                ready[child] = at
    # A stable sort: a round comes after its own updates.
    told.sort(key=lambda entry: entry[0])
    return begun, told, max(at, told[-1][0])


def by_depth(depth: int, client: str) -> float:
    return 1 + 0.2 * depth


def by_length(depth: int, client: str) -> float:
    return random.Random(f"{depth}{client}").lognormvariate(0, 0.6)


SHAPES = {
    "as supposed": Shape(),
    "one worker": Shape(workers=1),
    "many workers": Shape(workers=8),
    "a slow start": Shape(start=60.0),
    "deeper is slower": Shape(factor=by_depth),
    "texts of all lengths": Shape(factor=by_length),
    "kept activations": Shape(training=0.002, preparing=0.2),
    "several rounds": Shape(rounds=5),
    "costly averages": Shape(averaging=2.0),
    "resumed": Shape(rounds=5, done_rounds=4),
    "all updates at once": Shape(bursts=True),
    "one sequence after a wide start": Shape(
        sequences=[*((group,) for group in range(1, GROUPS)), tuple(range(GROUPS))]
    ),
    "one long sequence": Shape(sequences=[tuple(range(GROUPS))], workers=4),
    "few clients": Shape(clients=2, workers=4),
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("name", SHAPES)
def test_within_a_factor_of_two_after_the_first_tenth(name: str, clock: list[float]) -> None:
    begun, told, end = simulate(SHAPES[name])
    tally, ratios = Tally(), {}
    tally(begun)
    for at, event in told:
        clock[0] = at
        tally(event)
        left = tally.seconds_left()
        assert left is not None
        # At the very end a second more or less is much.
        if at > end / 10 and end - at > max(2.0, end / 30):
            ratios[at] = left / (end - at)
    assert {at: ratio for at, ratio in ratios.items() if not 0.5 <= ratio <= 2} == {}


@pytest.mark.parametrize(("at_once", "left"), [(1, 8.0), (2, 14 / 3)])
def test_workers_start_before_the_clock_does(at_once: int, left: float, clock: list[float]) -> None:
    """With two workers, the other is taken to be half done with something as long."""
    tally = Tally()
    tally(WorkBegun(1, 1, 100, (), (), 100, at_once))
    assert tally.seconds_left() is None
    clock[0] = 9.0
    tally(ClientUpdated("a", (0,), "c0", 1, 20, 2.0))
    assert tally.seconds_left() == pytest.approx(left), "without the seven seconds of the start"


def test_it_counts_down_between_updates(clock: list[float]) -> None:
    tally = Tally()
    tally(WorkBegun(1, 1, 100, (), ()))
    for at in (2.0, 4.0):
        clock[0] = at
        tally(ClientUpdated("a", (0,), "c0", 1, 20, 2.0))
    left = tally.seconds_left()
    clock[0] = 5.0
    assert left == pytest.approx(6.0)
    assert tally.seconds_left() == pytest.approx(5.0)
    clock[0] = 50.0
    assert tally.seconds_left() == 0.0, "never less than none"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -5.0, 1e300])
def test_times_that_cannot_be_true_do_not_count(seconds: float, clock: list[float]) -> None:
    """Remote clients may say anything."""
    tally = Tally()
    tally(WorkBegun(1, 1, 100, (), (), 40))
    for at in (2.0, 4.0, 6.0):
        clock[0] = at
        tally(ClientUpdated("a", (0,), "c0", 1, 20, 2.0 if at < 5 else seconds, None, seconds))
    left = tally.seconds_left()
    assert left is not None
    assert 0.0 <= left < 100.0


def test_shares_are_timed_from_the_first_one_on(clock: list[float]) -> None:
    """Before it, processes are started and models loaded."""
    time = ShareTime()
    time.told(0.0)
    clock[0] = 20.0
    time.told(0.1)
    assert time.left.now() is None
    clock[0] = 21.0
    time.told(0.2)
    assert time.left.now() == pytest.approx(8.0)
    clock[0] = 29.0
    time.told(1.0)
    assert time.left.now() == 0.0
