"""An experiment for simulations: can membership inference tell deleted records from records never seen?

It is tried on what is served now, and on what was served before the deletions. That was destroyed, so it is
built again, with the deleted records, in a folder that is gone afterwards. Nothing is written to the run's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

from fedsgt.data import Table
from fedsgt.errors import InputError
from fedsgt.forgetting import membership
from fedsgt.forgetting.membership import Flags, Floats, Interval
from fedsgt.forgetting.shadow_models import Before, Probabilities, Progress, Shadows, experiment
from fedsgt.forgetting.targets import find_attacked
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.serving.predictor import Exhausted, Predictor

SHADOWS = 16
FALSE_POSITIVES = (1, 5)  # percent
LOSS, LIRA = "loss threshold", "LiRA"


@dataclass(frozen=True)
class Case:
    """One attack on one system."""

    auc: Interval
    true_positives: dict[str, float | None]
    """Share of deleted records found, by the share of unseen ones that are taken for such."""
    scores: tuple[Floats, Floats] = field(repr=False)
    """Of deleted and of unseen records."""

    @classmethod
    def of(cls, scores: Floats, deleted: int) -> Case:
        members, others = scores[:deleted], scores[deleted:]
        found = {f"{at}%": membership.true_positives(members, others, at) for at in FALSE_POSITIVES}
        return cls(membership.auc(members, others), found, (members, others))

    def to_json(self) -> dict[str, Any]:
        return {"auc": asdict(self.auc), "true_positives": self.true_positives}


@dataclass(frozen=True)
class Attack:
    """One attack on both systems; after the deletions there may be none to attack."""

    before: Case
    after: Case | None

    @property
    def drop(self) -> Interval | None:
        """How much of the AUC went with the deletions."""
        return None if self.after is None else membership.drop(self.before.scores, self.after.scores)

    def to_json(self) -> dict[str, Any]:
        return {
            "deleted": len(self.before.scores[0]),
            "unseen": len(self.before.scores[1]),
            "before": self.before.to_json(),
            "after": None if self.after is None else self.after.to_json(),
            "drop": None if self.drop is None else asdict(self.drop),
        }


@dataclass(frozen=True)
class Forgetting:
    """What was found at one position of the ledger."""

    position: int
    strategy: str
    seed: int
    deleted: int
    """Deleted records at hand: the system of before has learnt them."""
    duplicates: int
    """Of these, the ones that are not attacked because a retained record has the same content."""
    as_it_was: bool
    """Whether every module of the system of before is one that the run had."""
    shadows: int
    shadow_rounds: int
    not_served: str | None
    """Why nothing could be asked after the deletions."""
    attacks: dict[str, Attack]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"attacks": {name: attack.to_json() for name, attack in self.attacks.items()}}


def measure(
    folder: RunFolder,
    *,
    deleted: Path | None = None,
    shadows: int = SHADOWS,
    shadow_rounds: int | None = None,
    strategy: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    begin: Callable[[int], None] = lambda records: None,
    progress: Progress = lambda share: None,
) -> Forgetting:
    """Attack what is served now, and what was served before all deletions so far.

    `deleted` is a file that has deleted records which the run's source has no longer; at most `limit` of them
    are attacked. A shadow model learns in so many rounds, by default as much as a sequence does. `begin` is
    told how many deleted records are going to be learnt again, before any is.
    """
    if shadows < 4 or shadows % 2:
        raise InputError(f"shadows: {shadows} is not allowed; it is an even number of at least 4")
    started, live = time.monotonic(), folder.live()
    if not live.requests:
        raise InputError(f"{folder.path}: no record was deleted yet; see fedsgt unlearn")
    attacked = find_attacked(folder, live, deleted, limit, seed)
    predictor = Predictor(folder, strategy)
    after, not_served = _served(predictor, attacked.table)
    before = Before.of(folder, live.description, attacked, predictor.strategy)
    rounds = shadow_rounds or _sequence_rounds(before)
    shadow = Shadows.of(before, attacked, shadows, rounds, seed)
    begin(attacked.deleted)
    told, shadows_told = experiment(folder, live, before, shadow, progress)
    labels = attacked.table.labels
    systems = [None if said is None else membership.confidences(said, labels) for said in (told, after)]
    known = membership.confidences(shadows_told, labels)
    return Forgetting(
        position=live.position,
        strategy=predictor.strategy,
        seed=seed,
        deleted=attacked.deleted,
        duplicates=attacked.duplicates,
        as_it_was=_as_it_was(folder, live, before),
        shadows=shadows,
        shadow_rounds=rounds,
        not_served=not_served,
        attacks=_attacks(systems, known, shadow.inside),
        seconds=round(time.monotonic() - started, 1),
    )


def _served(predictor: Predictor, table: Table) -> tuple[Probabilities | None, str | None]:
    """Class probabilities as anybody may ask for them now; or why there are none."""
    try:
        answer = predictor.predict(table.contents, table.ids)
    except Exhausted:
        return None, "no module is live, so there is nothing to ask"
    if answer.bare_backbone:
        return None, "only the bare backbone answers, and it has learnt nothing"
    return answer.probabilities, None


def _sequence_rounds(before: Before) -> int:
    """A sequence's phases learn from 1, 2, ... groups: half as often as there are groups, and a bit."""
    longest = max(len(prefix) for _, prefix, _ in before.chosen)
    return ceil(before.prepared.run.training.rounds * (longest + 1) / 2)


def _attacks(systems: list[Floats | None], shadows: Floats, inside: Flags) -> dict[str, Attack]:
    deleted = inside.shape[1] // 2

    def lira(observed: Floats) -> Floats:
        known = shadows[:, : 2 * deleted]
        return membership.lira_scores(membership.aligned(observed[: 2 * deleted], known), known, inside)

    found = {}
    for name, scores in ((LOSS, membership.loss_scores), (LIRA, lira)):
        before, after = (None if said is None else Case.of(scores(said), deleted) for said in systems)
        assert before is not None
        found[name] = Attack(before, after)
    return found


def _as_it_was(folder: RunFolder, live: Live, before: Before) -> bool:
    """The run's description and the lists of what was destroyed name every module that it had."""
    lists = (entry.body["artefacts"] for entry in folder.ledger.entries() if entry.kind == Kind.CONDEMNED)
    had = {artefact["module"] for artefacts in lists for artefact in artefacts}
    had |= {entry.key for entry in live.description.modules}
    return had.issuperset(target.key for target in before.targets)
