"""An experiment for simulations: can membership inference tell deleted records from unseen ones?

It attacks the system that serves now, and the one that served before the deletions. That one was destroyed,
so it is trained again, with the deleted records, in a work folder of the run, which is removed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

from fedsgt.data import Record, labels_of
from fedsgt.errors import InputError
from fedsgt.forgetting import membership
from fedsgt.forgetting.attacked_records import find_attacked_records
from fedsgt.forgetting.membership import Flags, Floats, Interval
from fedsgt.forgetting.shadow_models import EarlierSystem, Probabilities, Progress, ShadowModels, experiment
from fedsgt.ledger.kinds import Kind
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.serving.predictor import Exhausted, Predictor

SHADOWS = 16  # each record is in half of them: eight models on each side give LiRA a mean and a spread
FALSE_POSITIVES = (1, 5)  # percent
LOSS, LIRA = "loss threshold", "LiRA"


@dataclass(frozen=True)
class AttackResult:
    """Success of one attack on one system."""

    auc: Interval
    true_positives: dict[str, float | None]
    """Share of deleted records recognised, by the share of unseen ones wrongly taken for deleted."""
    scores: tuple[Floats, Floats] = field(repr=False)
    """Scores of the deleted and of the unseen records."""

    @classmethod
    def of(cls, scores: Floats, deleted: int) -> AttackResult:
        members, others = scores[:deleted], scores[deleted:]
        found = {f"{at}%": membership.true_positives(members, others, at) for at in FALSE_POSITIVES}
        return cls(membership.auc(members, others), found, (members, others))

    def to_json(self) -> dict[str, Any]:
        return {"auc": asdict(self.auc), "true_positives": self.true_positives}


@dataclass(frozen=True)
class Attack:
    """Success of one attack before and after the deletions; no `after` if nothing is served now."""

    before: AttackResult
    after: AttackResult | None

    @property
    def drop(self) -> Interval | None:
        """AUC before minus AUC after."""
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
    """Result of an experiment, at one position of the ledger."""

    position: int
    strategy: str
    seed: int
    deleted: int
    """Number of deleted records at hand, which the earlier system has learnt."""
    duplicates: int
    """Number of them that are not attacked because a retained record has the same content."""
    as_it_was: bool
    """Whether every module of the earlier system is one that the run had."""
    shadows: int
    shadow_rounds: int
    not_served: str | None
    """Reason why there is no system to attack after the deletions."""
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
    """Attack the system that serves now, and the one that served before all deletions so far.

    `deleted` is a file with deleted records that are no longer in the run's source; at most `limit` of them
    are attacked. A shadow model is trained for `shadow_rounds`, by default about as long as a sequence.
    `begin` is called with the number of deleted records that are trained on again, before that happens.
    """
    if shadows < 4 or shadows % 2:
        raise InputError(f"shadows: {shadows} is not allowed; it is an even number of at least 4")
    # The state is fixed here; a deletion that comes later ends the experiment.
    started, live = time.monotonic(), folder.live()
    if not live.requests:
        raise InputError(f"{folder.path}: no record was deleted yet; see fedsgt unlearn")
    if not live.description.modules:
        raise InputError(f"{folder.path}: the run's plan has no modules, so there is nothing to attack")
    # Opened before anything is trained, because it checks the strategy and the backbone.
    predictor = Predictor(folder, strategy, heads="trained")
    attacked = find_attacked_records(folder, live, deleted, limit, seed)
    after, not_served = _served(predictor, attacked.records)
    before = EarlierSystem.of(folder, live.description, attacked, predictor.strategy)
    rounds = shadow_rounds or _sequence_rounds(before)
    shadow = ShadowModels.of(before, attacked, shadows, rounds, seed)
    # The caller is warned before deleted records are trained on again.
    begin(attacked.deleted)
    told, shadows_told = experiment(folder, live, before, shadow, progress)
    labels = labels_of(attacked.records)
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


def _served(predictor: Predictor, records: Sequence[Record]) -> tuple[Probabilities | None, str | None]:
    """Return class probabilities as the run serves them now, or the reason why it serves none."""
    try:
        found = predictor.predict(records)
    except Exhausted:
        return None, "no module is live, so there is nothing to ask"
    if found.bare_backbone:
        return None, "only the bare backbone answers, and it has learnt nothing"
    return found.probabilities, None


def _sequence_rounds(before: EarlierSystem) -> int:
    """Return the rounds after which a shadow model has seen a record as often as a sequence has."""
    # A group at place k of a sequence of L groups is trained on in phases k to L: in (L + 1) / 2 on average.
    longest = max(len(prefix) for _, prefix, _ in before.chosen)
    return ceil(before.prepared.run.training.rounds * (longest + 1) / 2)


def _attacks(systems: list[Floats | None], shadows: Floats, inside: Flags) -> dict[str, Attack]:
    deleted = inside.shape[1] // 2

    def lira(observed: Floats) -> Floats:
        # Shadow models know the deleted records and as many unseen ones; further unseen ones are left out.
        known = shadows[:, : 2 * deleted]
        return membership.lira_scores(membership.aligned(observed[: 2 * deleted], known), known, inside)

    found = {}
    for name, scores in ((LOSS, membership.loss_scores), (LIRA, lira)):
        before, after = (None if said is None else AttackResult.of(scores(said), deleted) for said in systems)
        assert before is not None
        found[name] = Attack(before, after)
    return found


def _as_it_was(folder: RunFolder, live: Live, before: EarlierSystem) -> bool:
    """Whether the run once had every module of the earlier system."""
    # Modules that a deletion destroyed are no longer described, but the ledger lists them.
    lists = (entry.body["artefacts"] for entry in folder.ledger.entries() if entry.kind == Kind.CONDEMNED)
    had = {artefact["module"] for artefacts in lists for artefact in artefacts}
    had |= {entry.key for entry in live.description.modules}
    return had.issuperset(target.key for target in before.targets)
