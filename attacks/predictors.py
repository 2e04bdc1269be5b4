"""Predictors: several processes answer from a run while deletions and a retraining change it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from attacks import adapter
from attacks.case import Abandoned, Case
from attacks.children import Child, Tell, run
from attacks.kills import STRATEGIES, new_run
from attacks.shadow import Shadow
from attacks.world import World, default_rows

DELETIONS = 4
Answer = tuple[float, int | None, frozenset[str]]
"""When it was asked for, the ledger's position (None: exhausted), and the keys that answered."""
Change = tuple[float, int, set[str]]
"""When a deletion was acknowledged, its position, and the keys that it killed."""


def answer_until_told(path: Path, content: bytes, strategy: str, stop: Path, tell: Tell) -> list[Answer]:
    """Ask one predictor again and again until the file `stop` is there; return all answers."""
    from fedsgt.serving.predictor import Predictor

    predictor = Predictor(path, strategy)
    answers: list[Answer] = []
    tell("ready")
    while not stop.exists():
        begun = time.monotonic()
        found = adapter.ask(predictor, content)
        answers.append((begun, None, frozenset()) if found is None else (begun, *found))
    return answers


def predict_meanwhile(case: Case, place: Path, world: World, url: str | None) -> None:
    """Delete, retrain and delete while predictors answer; judge every answer afterwards."""
    shadow = new_run(case, place, world, url, rewrites=case.chance(0.5))
    content: Any = default_rows()[0].content
    stop = place / "stop"
    chosen = [case.rng.choice(STRATEGIES) for _ in range(3)]
    children = [Child(answer_until_told, shadow.path, content, one, stop) for one in chosen]
    changes: list[Change] = []
    try:
        for child in children:
            child.ends.poll(60)  # until it has told that it is ready
        for number in range(DELETIONS):
            if number == DELETIONS // 2:
                case.note("retrains")
                case.value(run(adapter.retrain, shadow.path), "retraining fails")
                case.counts["retrainings"] += 1
            changes.append(_delete(case, shadow))
            time.sleep(case.rng.random() * 0.1)
    except Abandoned:
        pass
    finally:
        stop.touch()
        outcomes = [child.wait() for child in children]
    for strategy, outcome in zip(chosen, outcomes, strict=True):
        case.expect(outcome.trouble is None, f"a predictor ({strategy}) fails: {outcome.trouble}")
        if outcome.crash:
            case.note(outcome.crash)
        _judge(case, outcome.value or [], changes)


def _delete(case: Case, shadow: Shadow) -> Change:
    look = shadow.look()
    name = case.rng.choice([name for name, one in shadow.enrolments.items() if one.left])
    wish = (name, (case.rng.choice(sorted(shadow.enrolments[name].left)),), None)
    case.note(f"deletes {wish}")
    before = set(shadow.killed)
    done = case.value(run(adapter.delete, shadow.path, [wish], None), "a deletion fails")
    acknowledged = time.monotonic()
    shadow.apply(wish, look, done["position"])
    case.counts["deletions"] += 1
    return acknowledged, done["position"], shadow.killed - before


def _judge(case: Case, answers: list[Answer], changes: list[Change]) -> None:
    """Check each answer against the deletions that were acknowledged before it was asked for."""
    case.counts["answers"] += len(answers)
    for begun, position, keys in answers:
        before = [change for change in changes if change[0] <= begun]
        killed = {key for change in before for key in change[2]}
        case.counts["answers after a deletion"] += bool(before)
        case.expect(not keys & killed, "an answer names modules that an acknowledged deletion killed")
        if position is None:
            case.counts["answers: exhausted"] += 1
        else:
            last = max((change[1] for change in before), default=0)
            case.expect(position >= last, f"an answer at position {position}, after request no. {last}")
