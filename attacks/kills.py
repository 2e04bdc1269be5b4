"""Kills: runs whose operations are killed at random steps and times, one after another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attacks import adapter
from attacks.adapter import Wish
from attacks.case import Abandoned, Case
from attacks.children import Kill, Outcome, run
from attacks.shadow import Shadow
from attacks.world import World, config_of, default_rows, fresh_rows, write_source

Usual = dict[str, tuple[float, int]]
"""Seconds and steps that each operation takes if nobody kills it."""

OPERATIONS = 24  # of one run, before a new one is made
FEW_RECORDS = 14
WEIGHTS = {
    "unlearn records": 5,
    "unlearn slice": 2,
    "unlearn client": 1,
    "retrain": 4,
    "rejoin": 2,
    "evaluate": 3,
    "export": 3,
    "verify": 2,
    "report": 1,
    "recover": 2,
}
STRATEGIES = ("all", "min", "long", "merged")


def live_and_die(
    case: Case, place: Path, world: World, url: str | None, usual: Usual, operations: int = OPERATIONS
) -> None:
    """Make a run, kill operations on it until it is used up, and check it after each."""
    shadow = new_run(case, place, world, url, rewrites=case.chance(0.6))
    life = Life(shadow, place, usual)
    try:
        while life.operations < operations and shadow.records > FEW_RECORDS:
            life.step()
        shadow.check_settled()
    except Abandoned:
        pass


def new_run(case: Case, place: Path, world: World, url: str | None, rewrites: bool) -> Shadow:
    """Train a run on an owners' file of its own."""
    rows = default_rows()
    file = write_source(place / "source", rows)
    settings = [f"data.erase={'rewrite' if rewrites else 'tombstone'}"]
    settings += [] if url is None else [f"unlearning.ledger={url}"]
    config = config_of(world, place / "source", *settings)
    shadow = Shadow(case, place / "run", rewrites)
    case.value(run(adapter.make_run, config, shadow.path), "a run cannot be trained")
    case.counts["runs"] += 1
    for name in sorted({row.client for row in rows}):
        shadow.enrol(name, file, rows)
    return shadow


def measure_usual(place: Path, world: World) -> Usual:
    """Carry out every operation once, unharmed, and return what each took."""
    case = Case("measuring", 0)
    shadow = new_run(case, place, world, None, rewrites=True)
    life = Life(shadow, place, {})
    for name in WEIGHTS:
        life.operations += 1
        life._tally(name, None, life._operate(name, None))
        life.before = shadow.look()
    return life.usual


class Life:
    """A run, and the operations that are killed on it."""

    def __init__(self, shadow: Shadow, place: Path, usual: Usual) -> None:
        self.shadow, self.case, self.place, self.usual = shadow, shadow.case, place, dict(usual)
        self.operations = 0
        self.before = shadow.look()
        shadow.hashes.update(self.before.hashes)

    def step(self) -> None:
        """Carry out an operation, killed or not, and check the run."""
        case, shadow, name = self.case, self.shadow, self._drawn()
        self.operations += 1
        kill = self._kill(name)
        case.note(f"{name}, {'not killed' if kill is None else f'killed {kill}'}")
        outcome = self._operate(name, kill)
        self._tally(name, kill, outcome)
        after = shadow.look()
        shadow.check_state(self.before, after)
        if case.chance(0.7):
            after = shadow.check_settled()
            case.note("settled")
            if case.chance(0.3):
                rows = default_rows()
                shadow.check_answer(after, bytes(rows[0].content), case.rng.choice(STRATEGIES))  # type: ignore[arg-type]
            if case.chance(0.05) and after.served:
                self._verify()
        self.before = after

    def _drawn(self) -> str:
        names = [name for name in WEIGHTS if self._possible(name)]
        return self.case.rng.choices(names, [WEIGHTS[name] for name in names])[0]

    def _possible(self, name: str) -> bool:
        if name == "export":
            return bool(self._exportable())
        if name in ("evaluate", "verify"):
            return bool(self.before.served)
        if name == "rejoin":
            return len(self.shadow.enrolments) < 6
        if name.startswith("unlearn"):
            # Until the run is trained again there is little left to kill.
            return bool(self.before.served) or self.case.chance(0.3)
        return True

    def _kill(self, name: str) -> Kill | None:
        """Draw when to kill: half at a step, which finds narrow windows, half at a time; some not at all."""
        if name not in self.usual:
            return None
        draw, share = self.case.rng.random(), self.case.rng.random()
        seconds, steps = self.usual[name]
        if draw < 0.5:
            return Kill(step=1 + int(share * steps))
        return Kill(seconds=share * seconds) if draw < 0.93 else None

    def _tally(self, name: str, kill: Kill | None, outcome: Outcome) -> None:
        case = self.case
        if outcome.killed:
            case.counts[f"killed: {name}"] += 1
            case.counts["kills"] += 1
            case.counts["kills at a step" if kill and kill.step else "kills at a time"] += 1
            return
        case.counts["operations that came to their end"] += 1
        case.note(f"came to its end: {outcome.trouble or 'well'}")
        case.expect(outcome.trouble is None, f"{name} fails: {outcome.trouble}")
        if outcome.crash:
            case.note(outcome.crash)
        if name == "retrain" and outcome.trouble is None:
            self.shadow.cleared_by("retraining")
        known = self.usual.get(name, (0.0, 0))
        self.usual[name] = max(known[0], outcome.seconds), max(known[1], outcome.steps)

    def _operate(self, name: str, kill: Kill | None) -> Outcome:
        path, rng = self.shadow.path, self.case.rng
        if name.startswith("unlearn"):
            return self._delete(name, kill)
        if name == "rejoin":
            return self._rejoin(kill)
        simple: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "retrain": (adapter.retrain, ()),
            "evaluate": (adapter.measure, ()),
            "export": (adapter.export, (self._sequence(),)),
            "verify": (adapter.prove, (1, rng.randrange(1000))),
            "report": (adapter.page, ()),
            "recover": (adapter.settle, ()),
        }
        if name == "export":  # may leave under the same name what a deletion has just cleared away
            self.shadow.doomed = {one for one in self.shadow.doomed if not one.startswith("export/")}
        function, arguments = simple[name]
        return run(function, path, *arguments, kill=kill)

    def _sequence(self) -> int:
        """Draw a sequence that has a live module and is not exported yet."""
        return self.case.rng.choice(self._exportable() or [0])

    def _exportable(self) -> list[int]:
        there = self.shadow.path / "export"
        depths = enumerate(map(len, self.before.prefixes))
        return [
            number
            for number, depth in depths
            if depth and not (there / f"sequence-{number}-{depth}").exists()
        ]

    def _wish(self, name: str) -> Wish:
        rng, shadow = self.case.rng, self.shadow
        enrolment = rng.choice([name for name, one in shadow.enrolments.items() if one.left])
        left = shadow.enrolments[enrolment].left
        if name == "unlearn client":
            return enrolment.partition("~")[0], None, None
        if name == "unlearn slice" and not any(one.startswith(f"{enrolment}~") for one in shadow.enrolments):
            return enrolment, None, (rng.choice(sorted(set(left.values()))),)
        return enrolment, tuple(rng.sample(sorted(left), min(len(left), rng.choice((1, 1, 2))))), None

    def _delete(self, name: str, kill: Kill | None) -> Outcome:
        """Delete with a key; afterwards the request is in force or unknown, and may be repeated."""
        case, shadow = self.case, self.shadow
        wish, key = self._wish(name), f"key-{self.operations}"
        case.note(f"deletes {wish} with {key}")
        outcome = run(adapter.delete, shadow.path, [wish], key, kill=kill)
        known = case.value(run(adapter.is_known, shadow.path, key), "the run does not open after a deletion")
        acknowledged = outcome.value is not None or "in force" in outcome.told
        case.expect(known or not acknowledged, "an acknowledged deletion is not in the ledger")
        case.counts["deletions in force after the kill" if known else "deletions unknown after the kill"] += (
            outcome.killed
        )
        case.note("in force" if known else "unknown")
        if not known and (outcome.trouble or case.chance(0.4)):
            case.expect(
                len(shadow.look().requests) == len(self.before.requests), "an unknown request is there"
            )
            return outcome
        self._repeat(wish, key, known)
        return outcome

    def _repeat(self, wish: Wish, key: str, known: bool) -> None:
        """Send the same request again: there is one of it, and it is in force."""
        case, shadow = self.case, self.shadow
        again = case.value(run(adapter.delete, shadow.path, [wish], key), "a request cannot be repeated")
        case.counts["requests repeated"] += 1
        case.expect(again["repeated"] == known, "a repeated request is answered as if it were new, or not")
        case.expect(
            again["groups"] == shadow.hit(wish, self.before), "a request hit other groups than its own"
        )
        after = shadow.look()
        case.expect(len(after.requests) == len(self.before.requests) + 1, "a repeated request is there twice")
        shadow.apply(wish, self.before, again["position"])

    def _rejoin(self, kill: Kill | None) -> Outcome:
        """Take a client back with new records; a killed rejoining took place or did not."""
        case, shadow = self.case, self.shadow
        client, tag = case.rng.choice(["c0", "c1", "c2", "c3"]), f"new{self.operations}"
        rows = fresh_rows(client, tag, 6, case.rng.randrange(10**6))
        file = write_source(self.place / tag, rows)
        outcome = run(adapter.come_back, shadow.path, client, file, kill=kill)
        new = shadow.look().groups_of.keys() - shadow.enrolments.keys()
        case.expect(bool(new) or outcome.value is None, "a client that came back is not there")
        for name in new:
            shadow.enrol(name, file, rows)
        return outcome

    def _verify(self) -> None:
        """Verify a sample bit for bit."""
        case, shadow = self.case, self.shadow
        counts = case.value(run(adapter.prove, shadow.path, 2, case.rng.randrange(1000)), "verify fails")
        case.counts["modules verified bit for bit"] += sum(counts.values())
        case.expect(counts.keys() <= {"same"}, f"verify finds {counts}")
