"""The campaigns: which cases each has, and how they are run, several at a time, within bounds."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from attacks import kills, planted, predictors, sources, tampering
from attacks.case import Broken, Case
from attacks.children import Child, Tell, run
from attacks.world import World, make_world, private_place, settle_in

NAMES = ("kills", "sources", "planted", "predictors", "tampering")
CASES = {"sources": 12, "planted": 24, "predictors": 8}
# Longer than any case takes; one that hangs is ended and told.
PATIENCE = 900.0
Act = Callable[[Case, Path], None]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Choice of campaigns, their seed and their limits."""

    seed: int = 0
    kills: int = 320
    minutes: float = 10.0
    names: tuple[str, ...] = NAMES
    jobs: int = 2
    keep: Path | None = None


@dataclass
class Result:
    """Counts of one campaign, and what it found broken."""

    name: str
    cases: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Arena:
    """Things that all cases share: a place, the tiny model, and a PostgreSQL server if there is one."""

    def __init__(self, plan: Plan, place: Path) -> None:
        self.plan, self.place = plan, place
        self.world: World = make_world(place / "world", "image")
        self._usual: kills.Usual = {}

    def usual(self) -> kills.Usual:
        """Return what the operations take, measured once; a life corrects it as it goes on."""
        if not self._usual:
            place = self.place / "measuring"
            found = run(lambda tell: kills.measure_usual(settle_in(place), self.world))
            if found.value is None:
                raise RuntimeError(f"the operations cannot be measured: {found.crash or found.error}")
            self._usual = found.value
        return self._usual


def attack(plan: Plan, say: Say) -> list[Result]:
    """Run the campaigns or cases that the plan names, and return their results."""
    deadline, results = time.monotonic() + plan.minutes * 60, []
    with private_place(plan.keep) as place:
        arena = Arena(plan, place)
        for number, name in enumerate(plan.names):
            # Kills take most of the time; the others share what is left evenly.
            shares = [6 if one.startswith("kills") else 1 for one in plan.names[number:]]
            left = max(0.0, deadline - time.monotonic()) * shares[0] / sum(shares)
            begun, result = time.monotonic(), Result(name)
            _run_cases(arena, name, result, begun + left, say)
            result.seconds = time.monotonic() - begun
            results.append(result)
    return results


def _run_cases(arena: Arena, name: str, result: Result, deadline: float, say: Say) -> None:
    """Run a campaign's cases, several at a time, until there are enough or the time is over."""
    running: list[tuple[Case, Child]] = []
    try:
        for case, act in _cases(arena, name, result, say):
            if time.monotonic() > deadline:
                result.skipped.append("the time was over before the last case")
                break
            running.append((case, _begin(arena, case, act)))
            if len(running) >= arena.plan.jobs:
                _finish(arena, result, *running[0], say)
                del running[0]
        while running:
            _finish(arena, result, *running[0], say)
            del running[0]
    finally:
        for _, child in running:  # it was interrupted
            child.end()


def _begin(arena: Arena, case: Case, act: Act) -> Child:
    place = arena.place / case.name.replace("/", "-")

    def carry_out(tell: Tell) -> Case:
        act(case, settle_in(place))
        return case

    return Child(carry_out, patience=PATIENCE, watched=False)


def _finish(arena: Arena, result: Result, case: Case, child: Child, say: Say) -> None:
    outcome = child.wait()
    done: Case = outcome.value or case
    done.expect(outcome.crash is None, f"the case itself failed: {outcome.trouble}")
    if outcome.crash:
        done.broken[-1] = Broken(case.name, case.seed, done.broken[-1].what, (outcome.crash,))
    result.cases += 1
    result.counts += done.counts
    result.broken += done.broken
    if arena.plan.keep is None:
        shutil.rmtree(arena.place / case.name.replace("/", "-"), ignore_errors=True)
    many = f"{result.counts['kills']} kills, " if result.counts["kills"] else ""
    say(f"{case.name}: {many}{result.counts['checks']} checks, {len(result.broken)} broken so far")


def _cases(arena: Arena, name: str, result: Result, say: Say) -> Iterator[tuple[Case, Act]]:
    """Yield the cases of a campaign, or the one case of this name."""
    campaign, _, rest = name.partition("/")
    seed = arena.plan.seed
    if campaign not in NAMES:
        raise SystemExit(f"attacks: {name}: no such campaign; one of {', '.join(NAMES)}")
    if campaign == "tampering":
        chosen = [one for one in tampering.ATTEMPTS if rest in ("", one)]
        yield from ((Case(f"tampering/{one}", seed), _tampering(arena, one)) for one in chosen)
        return
    database, _, number = rest.partition("/") if campaign in ("kills", "predictors") else ("", "", rest)
    databases = [one for one in _databases(campaign, result, say) if database in ("", one)]
    numbers = iter([int(number)]) if number else count()
    for index in numbers:
        for one in databases:
            enough = result.counts["kills"] >= arena.plan.kills if campaign == "kills" else False
            if enough or (campaign in CASES and result_is_full(campaign, index, len(databases))):
                return
            middle = f"/{one}" if one else ""
            yield Case(f"{campaign}{middle}/{index}", seed), _act(arena, campaign, one)


def result_is_full(campaign: str, index: int, databases: int) -> bool:
    """Whether the campaign has had all of its cases."""
    return index * databases >= CASES[campaign]


def _act(arena: Arena, campaign: str, database: str) -> Act:
    world = arena.world
    if campaign == "kills":
        usual = arena.usual()
        most = min(kills.OPERATIONS, arena.plan.kills)
        return lambda case, place: kills.live_and_die(case, place, world, _url(database), usual, most)
    if campaign == "predictors":
        return lambda case, place: predictors.predict_meanwhile(case, place, world, _url(database))
    if campaign == "sources":
        return lambda case, place: sources.share_a_source(case, place, world)
    return lambda case, place: planted.plant_and_delete(case, place, world)


def _tampering(arena: Arena, attempt: str) -> Act:
    return lambda case, place: tampering.tamper(case, place, arena.world, attempt)


def _databases(campaign: str, result: Result, say: Say) -> list[str]:
    """Return the databases that a campaign uses: both if a PostgreSQL server can be had."""
    if campaign not in ("kills", "predictors"):
        return [""]
    reason = _postgres()
    if reason is not None:
        result.skipped.append(f"PostgreSQL: {reason}")
        say(f"{campaign}: without PostgreSQL: {reason}")
        return ["sqlite"]
    return ["sqlite", "postgresql"]


def _postgres() -> str | None:
    """Start the server of the tests, once; return why there is none."""
    try:
        import databases

        databases.postgres_socket()
    except ImportError as error:
        return str(error)
    except BaseException as error:  # pytest's own, which is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return str(error).partition("\n")[0]
    return None


def _url(database: str) -> str | None:
    if database != "postgresql":
        return None
    from databases import postgres_url

    found: Any = postgres_url()
    return str(found)
