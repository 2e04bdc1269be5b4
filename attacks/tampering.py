"""Tampering: a run whose files were changed behind its back refuses to work, or says what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from attacks import adapter
from attacks.case import Abandoned, Case
from attacks.children import run
from attacks.kills import new_run
from attacks.planted import a_wish, delete_one, outside
from attacks.shadow import Shadow
from attacks.world import World, default_rows

COMPLETE, NOTHING_CHANGED, PENDING = 0, 2, 3
"""Exit codes of `fedsgt unlearn`."""


def tamper(case: Case, place: Path, world: World, attempt: str) -> None:
    """Make a run with a deletion, tamper with it, and check that it refuses or tells."""
    try:
        shadow = new_run(case, place, world, None, rewrites=False)
        shadow.hashes.update(shadow.look().hashes)
        shutil.copytree(shadow.path, place / "older")
        delete_one(shadow)
        ATTEMPTS[attempt](shadow, place)
    except Abandoned:
        pass


def _refused(shadow: Shadow, what: str) -> None:
    """Check that neither a command nor a predictor works with the run, and that both say why."""
    content = bytes(default_rows()[0].content)  # type: ignore[arg-type]
    for who, outcome in (
        ("a command", run(adapter.look, shadow.path)),
        ("a predictor", run(adapter.predict, shadow.path, content, "all")),
    ):
        shadow.case.note(f"{who}: {outcome.trouble}")
        shadow.case.expect(outcome.error is not None, f"{who} works with a run with {what} ({outcome.crash})")


def _older_description(shadow: Shadow, place: Path) -> None:
    """The position of the description is moved behind the deletion, and the dead modules are put back."""
    _edit(shadow.path / "run.json", as_of=shadow.acknowledged)
    shutil.copytree(place / "older" / "modules", shadow.path / "modules", dirs_exist_ok=True)
    _refused(shadow, "an edited description")


def _newer_format(shadow: Shadow, place: Path) -> None:
    _edit(shadow.path / "run.json", format=99)
    outcome = run(adapter.look, shadow.path)
    told = outcome.error is not None and "newer version" in outcome.error
    shadow.case.expect(told, f"a run of a newer format is not refused as such: {outcome.trouble}")


def _edit(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes, indent=1) + "\n")


def _ledger_row(shadow: Shadow, place: Path) -> None:
    _sql(shadow.path, "UPDATE fedsgt_ledger SET body = replace(body, '\"groups\":[', '\"groups\":[9,')")
    _refused(shadow, "a changed row in its ledger")


def _ledger_cut(shadow: Shadow, place: Path) -> None:
    """The ledger's end is cut off, and the certificates that would tell."""
    _sql(shadow.path, f"DELETE FROM fedsgt_ledger WHERE position >= {shadow.acknowledged}")
    shutil.rmtree(shadow.path / "certificates")
    _refused(shadow, "a ledger whose end was cut off")


def _sql(path: Path, statement: str) -> None:
    """Run SQL on the ledger's file after taking away its protection."""
    with closing(sqlite3.connect(path / "ledger.sqlite")) as connection:
        for name in ("update", "delete", "insert"):
            connection.execute(f"DROP TRIGGER IF EXISTS fedsgt_ledger_{name}")
        connection.execute(statement)
        connection.commit()


def _older_folder(shadow: Shadow, place: Path) -> None:
    """The whole folder is replaced by a copy from before the deletion."""
    shutil.rmtree(shadow.path)
    (place / "older").rename(shadow.path)
    _refused(shadow, "an older copy of its folder")


def _lost_state(shadow: Shadow, place: Path) -> None:
    """Without the state outside of its folder a run works on."""
    shutil.rmtree(os.environ["FEDSGT_STATE"])
    delete_one(shadow)
    shadow.check_settled()


def _key_for_all(shadow: Shadow, place: Path) -> None:
    key = shadow.path / "signing.key"
    key.chmod(0o644)
    _told(shadow, place)
    _told(shadow, place)
    key.chmod(0o600)
    shadow.check_settled()


def _key_corrupt(shadow: Shadow, place: Path) -> None:
    key = shadow.path / "signing.key"
    good = key.read_bytes()
    key.write_bytes(good[:40] + b"corrupt" + good[47:])
    _told(shadow, place)
    _told(shadow, place)
    key.write_bytes(good)
    shadow.check_settled()


def _key_lost(shadow: Shadow, place: Path) -> None:
    (shadow.path / "signing.key").unlink()
    if _told(shadow, place) == COMPLETE:
        kinds = shadow.case.value(run(adapter.ledger_kinds, shadow.path), "the run does not open")
        shadow.case.expect("signing-key" in kinds, "a lost signing key was replaced in silence")
        shadow.check_settled()


def _link_among_curves(shadow: Shadow, place: Path) -> None:
    (place / "outside").mkdir()
    (place / "outside" / "file").write_text("mine")
    (shadow.path / "tensorboard").mkdir(exist_ok=True)
    link = shadow.path / "tensorboard" / "events"
    link.symlink_to(place / "outside" / "file")
    before = outside(place / "outside")
    _told(shadow, place)
    _told(shadow, place)
    link.unlink(missing_ok=True)
    shadow.case.expect(outside(place / "outside") == before, "a link was followed")
    shadow.check_settled()


def _full_disk(shadow: Shadow, place: Path) -> None:
    """Files stop growing at sizes that hit one writer or another."""
    rng = shadow.case.rng
    for _ in range(16):
        # Half of them about the size of the ledger's journal, which grows entry by entry.
        room = rng.uniform(10_000, 90_000) if rng.random() < 0.5 else 2 ** rng.uniform(9, 19)
        _told(shadow, place, room=int(room))
    shadow.check_settled()


def _number_for_a_name(shadow: Shadow, place: Path) -> None:
    """A number is no name of a client: nothing is deleted (definition 11)."""
    before = shadow.look()
    code, said = shadow.case.value(
        run(adapter.command, ["unlearn", str(shadow.path), "--client", "1", "--slice", "0"]), "unlearn"
    )
    same = shadow.look().requests == before.requests
    shadow.case.expect(code == NOTHING_CHANGED and same, f"a number was taken for a client's name: {said}")


def _told(shadow: Shadow, place: Path, room: int | None = None) -> int:
    """Delete a record by the command: exit code and words must say whether the deletion is in force."""
    case, before, wish = shadow.case, shadow.look(), a_wish(shadow)
    key, ids = f"key-{len(case.history)}", place / "ids"
    ids.write_text("".join(f"{one}\n" for one in wish[1] or ()))
    words = ["unlearn", str(shadow.path), "--client", wish[0], "--records", str(ids), "--key", key]
    words.append("--no-retrain")
    limited = run(adapter.command, words) if room is None else run(adapter.command_on_full_disk, words, room)
    code, said = case.value(limited, "the command crashes")
    said = said.strip()
    last = said.splitlines()[-1] if said else ""
    case.note(f"{wish}{'' if room is None else f', files of {room} bytes at most'}: exit code {code}: {last}")
    known = case.value(run(adapter.is_known, shadow.path, key), "the run does not open")
    case.counts[f"exit code {code}"] += 1
    right = {COMPLETE: known, NOTHING_CHANGED: not known, PENDING: known and "in force" in said}
    words_of = "in force" if known else "unknown"
    case.expect(right.get(code, False), f"exit code {code}, and the deletion is {words_of}: {last}")
    if known:
        after = shadow.look()
        position = after.requests[-1].position
        shadow.apply(wish, before, position)
        shadow.check_state(before, after)
        missing = case.value(run(adapter.certified, shadow.path), "certificates cannot be checked")
        case.expect(code != COMPLETE or position not in missing, "exit code 0 without a certificate")
    return int(code)


ATTEMPTS: dict[str, Callable[[Shadow, Path], None]] = {
    "older-description": _older_description,
    "newer-format": _newer_format,
    "ledger-row": _ledger_row,
    "ledger-cut": _ledger_cut,
    "older-folder": _older_folder,
    "lost-state": _lost_state,
    "key-of-mode-644": _key_for_all,
    "key-corrupt": _key_corrupt,
    "key-lost": _key_lost,
    "link-among-curves": _link_among_curves,
    "full-disk": _full_disk,
    "number-for-a-name": _number_for_a_name,
}
