"""Shared sources: several runs on one owners' file delete from it at the same time, and some are killed."""

from __future__ import annotations

from pathlib import Path

from attacks import adapter
from attacks.adapter import Wish
from attacks.case import Abandoned, Case
from attacks.children import Child, Kill, run
from attacks.shadow import Shadow
from attacks.world import World, config_of, default_rows, ids_in, write_source

RUNS = 3
ROUNDS = 3
# Bytes beside each record, so that a rewrite takes long enough to be met by another.
PADDING = 60_000
STEPS = 180
# Words of the audit on records that modules depend on and that their source does not have.
LEFT = "left the source and were not deleted here"


def share_a_source(case: Case, place: Path, world: World) -> None:
    """Delete different records through different runs at once, round after round, with kills in some."""
    rows = default_rows()
    file = write_source(place / "source", rows, PADDING)
    config = config_of(world, place / "source", "data.erase=rewrite")
    shadows = []
    try:
        for number in range(RUNS):
            shadow = Shadow(case, place / f"run-{number}", rewrites=False)
            case.value(run(adapter.make_run, config, shadow.path), "a run cannot be trained")
            for name in sorted({row.client for row in rows}):
                shadow.enrol(name, file, rows)
            shadows.append(shadow)
        case.counts["runs"] += RUNS
        gone: set[str] = set()
        for _ in range(ROUNDS):
            gone |= _round(case, shadows, {row.id: row.client for row in rows if row.id not in gone})
            if not _check(case, shadows, file, {row.id for row in rows}, gone):
                return
        _delete_everywhere(case, shadows, sorted(gone))
    except Abandoned:
        return


def _delete_everywhere(case: Case, shadows: list[Shadow], ids: list[str]) -> None:
    """Delete from every run what the others deleted: the ids are in no file any more, but in registers."""
    told = run(adapter.delete_everywhere, [shadow.path for shadow in shadows], ids)
    states = case.value(told, "a deletion by subject fails")
    case.expect(set(states) == {"deleted"}, f"a deletion by subject did not reach every run: {states}")
    case.counts["deletions by subject"] += len(states)
    for shadow in shadows:
        found = case.value(run(adapter.problems, shadow.path), "the audit fails")
        case.expect(not found, f"the audit is not clean after all runs deleted: {found}")


def _round(case: Case, shadows: list[Shadow], left: dict[str, str]) -> set[str]:
    """Let every run delete a record or two at once; return the records that are deleted."""
    wishes: list[Wish] = []
    chosen = case.rng.sample(sorted(left), 2 * len(shadows))
    for first, second in zip(chosen[::2], chosen[1::2], strict=True):
        ids = (first, second) if left[first] == left[second] else (first,)
        wishes.append((left[first], ids, None))
    kills = [Kill(step=case.rng.randrange(1, STEPS)) if case.chance(0.4) else None for _ in shadows]
    for wish, kill in zip(wishes, kills, strict=True):
        case.note(f"at once: {wish}, {'not killed' if kill is None else f'killed {kill}'}")
    key = f"key-{len(case.history)}"
    before = [shadow.look() for shadow in shadows]
    children = [
        Child(adapter.delete, shadow.path, [wish], key, kill=kill)
        for shadow, wish, kill in zip(shadows, wishes, kills, strict=True)
    ]
    outcomes = [child.wait() for child in children]
    # Complete the killed deletions, again in all runs at once.
    for child in [Child(adapter.settle, shadow.path) for shadow in shadows]:
        case.value(child.wait(), "the next command fails")
    gone: set[str] = set()
    for shadow, wish, look, outcome in zip(shadows, wishes, before, outcomes, strict=True):
        case.counts["deletions at once"] += 1
        case.counts["kills"] += outcome.killed
        case.expect(outcome.trouble is None, f"a deletion fails: {outcome.trouble}")
        if outcome.crash:
            case.note(outcome.crash)
        known = case.value(run(adapter.is_known, shadow.path, key), "the run does not open")
        case.expect(known or outcome.value is None, "an acknowledged deletion is not in the ledger")
        if known:
            gone |= set(wish[1] or ())
            shadow.apply(wish, look, look.position + 1)
    return gone


def _check(case: Case, shadows: list[Shadow], file: Path, every: set[str], gone: set[str]) -> bool:
    """Check the owners' file and every run; False if the file is lost."""
    try:
        there = ids_in(file)
    except Exception as error:
        return case.expect(False, f"the owners' file cannot be read: {type(error).__name__}")
    lost, back = every - gone - there, there & gone
    case.expect(not lost, f"rows that nobody deleted are gone from the owners' file: {sorted(lost)}")
    case.expect(not back, f"deleted rows are in the owners' file: {sorted(back)}")
    beside = {one.name for one in file.parent.iterdir()} - {"train.parquet", "test.parquet"}
    case.expect(not beside, f"files beside the owners' file: {sorted(beside)}")
    for shadow in shadows:
        look = shadow.look()
        dead = shadow.killed & look.hashes.keys()
        case.expect(not dead, f"dead modules are on disk: {sorted(dead)}")
        missing = case.value(run(adapter.certified, shadow.path), "certificates cannot be checked")
        case.expect(not missing, f"requests without a certificate that verifies: {missing}")
        found = case.value(run(adapter.problems, shadow.path), "the audit fails")
        # Records that another run took out of the file are still in this run, and the audit must say so.
        bad = [problem for problem in found if LEFT not in problem[1]]
        case.expect(not bad, f"the audit is not clean: {bad}")
        case.expect(len(found) > len(bad), "the audit does not say that records left the source")
    case.counts["rounds"] += 1
    return not lost and not back
