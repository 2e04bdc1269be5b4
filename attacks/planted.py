"""Planted artefacts: dead files, links, strays and unfinished files, of which a deletion leaves none."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from attacks import adapter
from attacks.case import Abandoned, Case
from attacks.children import run
from attacks.kills import new_run
from attacks.shadow import Shadow
from attacks.world import World

SECRET = "bytes that depend on deleted records"
UNFINISHED = "0123456789abcdef"
NOTE = json.dumps({"modules": ["KEY"]})
# Each kind of file that depends on data, planted dead. KEY is a dead module's key, MARK the fingerprint of a
# slice that lost a record.
PLANTS: dict[str, dict[str, str | bytes]] = {
    "module": {"modules/KEY/module.safetensors": SECRET},
    "manifest": {"modules/KEY/manifest.json": SECRET},
    "predictions": {"modules/KEY/test-0123456789abcdef.safetensors": SECRET},
    "stray beside a module": {"modules/KEY/module.safetensors.bak": SECRET},
    "strays in a folder": {"modules/KEY/old/my module": SECRET},
    "checkpoint": {"rounds/KEY.safetensors": SECRET},
    "activations": {"cache/MARK/x.activations": SECRET, "cache/MARK/x.12.tmp": SECRET},
    "activations put aside": {"cache/.MARK/x.activations": SECRET},
    "activations of an unknown slice": {f"cache/{'0' * 64}/x.activations": SECRET},
    "export": {"export/mine/fedsgt.json": NOTE, "export/mine/adapter model": SECRET},
    "export without a note": {"export/.mine.0123/adapter_model.safetensors": SECRET},
    "export of a module long gone": {
        "export/old/fedsgt.json": NOTE.replace("KEY", "1" * 64),
        "export/old/m": SECRET,
    },
    "evaluation": {"evaluation.json": json.dumps({"position": 2, "said": SECRET})},
    "report": {"report.html": f'<meta name="fedsgt-ledger" content="2">{SECRET}'},
    "metrics": {"metrics.jsonl": json.dumps({"module": "KEY", "said": SECRET}) + "\n"},
    "curves": {"tensorboard/deep/events.1": SECRET},
    "database of curves": {"mlflow.db": SECRET, "mlflow.db-wal": SECRET},
    "work of a killed process": {
        "work/0123456789abcdef/records/0.parquet": SECRET,
        "work/0123456789abcdef.lock": "{}",
    },
    "records of nobody": {"records/99.parquet": adapter.kept_records(99, SECRET)},
    "statistic under a dead module": {"statistics/KEY/0-0123456789abcdef.safetensors": SECRET},
    "statistic of an unknown mark": {"statistics/backbone/0-0123456789abcdef.safetensors": SECRET},
    "statistic of nobody": {"statistics/backbone/99-0123456789abcdef.safetensors": SECRET},
    "unfinished write": {f"modules/KEY/.{UNFINISHED}.module.safetensors": SECRET},
    "unfinished write at the top": {f".{UNFINISHED}.evaluation.json": SECRET},
}
# Places of links. While one of them is there, a deletion is refused, or removes the link.
LINKS = (
    "export/linked",
    "export",
    "statistics",
    "statistics/backbone",
    "tensorboard",
    "tensorboard/events",
    "mlflow.db",
    "report.html",
    "rounds",
)
FOREIGN = "notes.txt"


def plant_and_delete(case: Case, place: Path, world: World) -> None:
    """Plant a random choice of dead files and at times a link, delete, and look for what is left."""
    with suppress(Abandoned):
        _plant_and_delete(case, place, world)


def _plant_and_delete(case: Case, place: Path, world: World) -> None:
    shadow = new_run(case, place, world, None, rewrites=False)
    shadow.hashes.update(shadow.look().hashes)
    delete_one(shadow)
    keys, marks = case.value(run(adapter.dead_parts, shadow.path), "the run does not open")
    chosen = case.rng.sample(sorted(PLANTS), case.rng.randint(1, 6))
    for name in chosen:
        case.note(f"plants: {name}")
        for file, text in PLANTS[name].items():
            key, mark = case.rng.choice(keys), case.rng.choice(marks)
            target, content = (_filled(part, key, mark) for part in (file, text))
            write_dead(shadow.path, str(target), content)
    case.counts["kinds planted"] += len(chosen)
    foreign = case.chance(0.3)
    if foreign:  # no file of a run: it is named by the audit, and left
        (shadow.path / FOREIGN).write_text("mine")
    if case.chance(0.4):
        _refused_with_a_link(shadow, place)
    before = outside(place)
    delete_one(shadow)
    case.expect(outside(place) == before, "something outside of the run's folder was changed")
    _check(shadow, foreign)


def _filled(part: str | bytes, key: str, mark: str) -> str | bytes:
    return part if isinstance(part, bytes) else part.replace("KEY", key).replace("MARK", mark)


def _check(shadow: Shadow, foreign: bool) -> None:
    case, path = shadow.case, shadow.path
    left = [
        file.relative_to(path).as_posix() for file in _files(path) if SECRET.encode() in file.read_bytes()
    ]
    case.expect(not left, f"planted files are left: {left}")
    found = case.value(run(adapter.problems, path), "the audit fails")
    named = [name for name, _ in found]
    case.expect(named == [FOREIGN] * foreign, f"the audit names {found}")
    case.expect(
        not foreign or (path / FOREIGN).read_text() == "mine", "a file that is not the run's was changed"
    )
    look = shadow.look()
    shadow.check_state(look, look)
    missing = case.value(run(adapter.certified, path), "certificates cannot be checked")
    case.expect(not missing, f"requests without a certificate that verifies: {missing}")


def _refused_with_a_link(shadow: Shadow, place: Path) -> None:
    """Put a link into the run: a deletion is refused and changes nothing, or the link is gone after it."""
    case = shadow.case
    target = place / "outside"
    target.mkdir()
    (target / "file").write_text(SECRET)
    link = shadow.path / case.rng.choice(LINKS)
    if link.exists() or link.parent.is_file():
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(case.rng.choice([target, target / "file", place / "nowhere"]))
    case.note(f"link: {link.relative_to(shadow.path)}")
    before, look, files = outside(place), shadow.look(), sorted(map(str, _files(shadow.path)))
    wish = a_wish(shadow)
    outcome = run(adapter.delete, shadow.path, [wish], None)
    case.expect(outside(place) == before, "something outside of the run's folder was changed")
    case.counts["links"] += 1
    if outcome.error is None:
        case.value(outcome, "a deletion fails")
        case.expect(not link.is_symlink(), "a deletion left a link in the place of dead files")
        shadow.apply(wish, look, outcome.value["position"])
        return
    case.counts["deletions refused because of a link"] += 1
    same = shadow.look().requests == look.requests and sorted(map(str, _files(shadow.path))) == files
    case.expect(same, f"a deletion was refused, and changed the run: {outcome.error}")
    link.unlink()


def a_wish(shadow: Shadow) -> adapter.Wish:
    """Draw a record to delete."""
    rng = shadow.case.rng
    name = rng.choice([name for name, one in shadow.enrolments.items() if one.left])
    return name, (rng.choice(sorted(shadow.enrolments[name].left)),), None


def delete_one(shadow: Shadow) -> None:
    """Delete one record of any client, which must succeed."""
    look, wish = shadow.look(), a_wish(shadow)
    shadow.case.note(f"deletes {wish}")
    done = shadow.case.value(run(adapter.delete, shadow.path, [wish], None), "a deletion fails")
    shadow.apply(wish, look, done["position"])


def write_dead(path: Path, name: str, text: str | bytes) -> None:
    """Write a file into the run as if it were older than any request; lines are added at the end."""
    place = path / name
    if place.parent.is_file():  # the empty file in place of destroyed activations
        place.parent.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    before = place.read_bytes() if name == "metrics.jsonl" and place.is_file() else b""
    place.write_bytes(before + (text if isinstance(text, bytes) else text.encode()))
    os.utime(place, (0, 0))


def outside(place: Path) -> dict[str, str]:
    """Return the hash of every file of the case that is not in its run's folder."""
    files = (file for file in _files(place) if place / "run" not in file.parents)
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file() and not file.is_symlink()]
