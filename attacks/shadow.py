"""Expected state of a run, kept by the campaign from the deletions that are in force."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from attacks import adapter
from attacks.adapter import Look, Wish
from attacks.case import Case
from attacks.children import run
from attacks.world import Row, ids_in, slice_number

# Words of the audit on remains of a killed writer that depend on live data only: for each, the words and the
# operations that must clear it away.
REMAINS = {
    "left by a killed writer": ("deletion", "retraining"),
    "its manifest is missing": ("retraining",),
    "does not say which modules it was made of": ("deletion",),
}


@dataclass
class Enrolment:
    """One enrolment of a client: its file, and its records that are not deleted, with their slices."""

    file: Path
    every: frozenset[str]
    """All ids that were ever written into the file, of all of its clients."""
    left: dict[str, int]


@dataclass
class Shadow:
    """A run's path, records and dead modules, as the deletions in force have them."""

    case: Case
    path: Path
    rewrites: bool
    """Whether deleted rows leave the owners' files."""
    enrolments: dict[str, Enrolment] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)
    """Keys of all modules that deletions have killed."""
    hashes: dict[str, str] = field(default_factory=dict)
    """SHA-256 of every module ever seen, by key."""
    acknowledged: int = 0
    """Position of the last request that was seen in force."""
    remains: dict[str, str] = field(default_factory=dict)
    """Remains of killed writers that the last audit named, with its words."""
    doomed: set[str] = field(default_factory=set)
    """Remains that must be gone by now."""

    def enrol(self, name: str, file: Path, rows: tuple[Row, ...]) -> None:
        mine = [row for row in rows if row.client == name.partition("~")[0]]
        left = {row.id: slice_number(name, row.id) for row in mine}
        self.enrolments[name] = Enrolment(file, frozenset(row.id for row in rows), left)

    @property
    def records(self) -> int:
        return sum(len(one.left) for one in self.enrolments.values())

    def named(self, wish: Wish) -> dict[str, set[str]]:
        """Return the records that a wish deletes, by enrolment."""
        client, records, slices = wish
        found: dict[str, set[str]] = {}
        for name, one in self.enrolments.items():
            if name == client or (name.startswith(f"{client}~")):
                found[name] = {
                    record
                    for record, index in one.left.items()
                    if (records is None or record in records) and (slices is None or index in slices)
                }
        return found

    def hit(self, wish: Wish, look: Look) -> set[int]:
        """Return the groups that a wish hits."""
        return {
            look.groups_of[name][self.enrolments[name].left[record]]
            for name, records in self.named(wish).items()
            for record in records
        }

    def apply(self, wish: Wish, before: Look, position: int) -> None:
        """Take a deletion that is in force into account."""
        hit = self.hit(wish, before)
        for name, records in self.named(wish).items():
            for record in records:
                del self.enrolments[name].left[record]
        dead = {key for key, groups in before.modules.items() if hit & groups}
        self.killed |= dead
        self.acknowledged = max(self.acknowledged, position)
        if dead:
            self.cleared_by("deletion")

    def cleared_by(self, operation: str) -> None:
        """Note that an operation came to its end that clears remains away."""
        words = [word for word, operations in REMAINS.items() if operation in operations]
        self.doomed |= {name for name, said in self.remains.items() if any(word in said for word in words)}

    def look(self) -> Look:
        """Open the run and look at it; a run that does not open ends the case."""
        found: Look = self.case.value(run(adapter.look, self.path), "the run does not open")
        return found

    def check_state(self, before: Look, after: Look) -> None:
        """Check what must hold at any moment, whatever was killed."""
        case = self.case
        case.expect(after.position >= self.acknowledged, "the ledger is shorter than it was")
        dead = self.killed & after.served
        case.expect(not dead, f"dead modules are served: {sorted(dead)}")
        other = [key for key, code in after.hashes.items() if self.hashes.setdefault(key, code) != code]
        case.expect(not other, f"modules have other bytes than before: {other}")
        lost = before.served - self.killed - after.hashes.keys()
        case.expect(not lost, f"live modules are gone: {sorted(lost)}")
        for file in {one.file for one in self.enrolments.values()}:
            self._check_file(file, settled=False)

    def check_settled(self) -> Look:
        """Let a command do what is left to do; after that nothing dead may be anywhere."""
        case = self.case
        case.value(run(adapter.settle, self.path), "the next command fails")
        look = self.look()
        missing = case.value(run(adapter.certified, self.path), "certificates cannot be checked")
        case.expect(not missing, f"requests without a certificate that verifies: {missing}")
        found = case.value(run(adapter.problems, self.path), "the audit fails")
        self._check_audit(dict(found))
        self._check_disk()
        for file in {one.file for one in self.enrolments.values()}:
            self._check_file(file, settled=True)
        # A verification that was killed must not leave records behind.
        left = os.listdir(os.environ["TMPDIR"])
        case.expect(not left, f"left in the temporary folder: {left}")
        for name in left:  # told once
            os.rename(Path(os.environ["TMPDIR"]) / name, self.path.parent / f"left-{os.urandom(4).hex()}")
        case.counts["runs settled"] += 1
        return look

    def check_answer(self, look: Look, content: bytes, strategy: str) -> None:
        """Check that a predictor answers, at a late enough position and with live modules only."""
        case = self.case
        found = case.value(run(adapter.predict, self.path, content, strategy), "a predictor fails")
        case.counts["predictions"] += 1
        if found is None:
            case.expect(not look.served, "exhausted, though modules are live")
            return
        case.expect(found[0] >= self.acknowledged, "an answer at an older position of the ledger")
        case.expect(not found[1] & self.killed, "an answer names dead modules")

    def _check_audit(self, found: dict[str, str]) -> None:
        """Check that the audit names nothing but remains of killed writers, and those not for long."""
        remains = {name: said for name, said in found.items() if any(word in said for word in REMAINS)}
        self.case.counts["remains of killed writers"] += len(remains.keys() - self.remains.keys())
        bad = {name: said for name, said in found.items() if name not in remains or name in self.doomed}
        self.case.expect(not bad, f"the audit is not clean: {bad}")
        self.remains, self.doomed = remains, set()

    def _check_disk(self) -> None:
        """Search names and bytes of all files in the run's folder for dead modules."""
        codes = {self.hashes[key] for key in self.killed if key in self.hashes}
        for file in self.path.rglob("*"):
            if file.is_file() and not file.name.startswith("ledger.sqlite"):
                name = file.relative_to(self.path).as_posix()
                dead = any(key in name for key in self.killed)
                same = hashlib.sha256(file.read_bytes()).hexdigest() in codes
                self.case.expect(not dead and not same, f"a dead module is still on disk: {name}")

    def _check_file(self, file: Path, settled: bool) -> None:
        """Check an owners' file: readable, with every row that was not deleted, and none that was."""
        case, mine = self.case, [one for one in self.enrolments.values() if one.file == file]
        left = {record for one in mine for record in one.left}
        try:
            there = ids_in(file)
        except Exception as error:
            case.expect(False, f"the owners' file cannot be read: {type(error).__name__}")
            return
        lost = left - there if self.rewrites else mine[0].every - there
        case.expect(not lost, f"rows that nobody deleted are gone from the owners' file: {sorted(lost)}")
        if settled and self.rewrites:
            case.expect(not there - left, f"deleted rows are in the owners' file: {sorted(there - left)}")
        if settled:
            beside = {one.name for one in file.parent.iterdir()} - {"train.parquet", "test.parquet"}
            case.expect(not beside, f"files beside the owners' file: {sorted(beside)}")
