"""The arithmetic of membership inference: scores of an attacker, and how well they tell members from others.

The attacks are the loss threshold (Yeom et al., 2018) and online LiRA (Carlini et al., 2022), which compares
how likely a record's confidence is among models that have learnt it and among models that have not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

Z = 1.959963984540054  # quantile of the normal distribution for 95 %
# The least positive float32, so no softmax gives less; it keeps the logarithms finite.
LEAST = 1e-45
# Number of shadow models from which each record has a variance of its own: the paper's advice. With fewer,
# all share one, as estimates from a handful of models are too rough.
OWN_VARIANCE = 64
LEAST_VARIANCE = 1e-12  # keeps scores finite where all shadow models agree


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % interval and the method that gave the interval."""

    value: float
    low: float
    high: float
    method: str

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


def confidences(probabilities: NDArray[Any], labels: ArrayLike) -> Floats:
    """Return the logit-scaled confidence in each record's own label, log(p / (1 - p)).

    The last axis of `probabilities` is the labels.
    """
    found = probabilities.astype(np.float64)
    own = np.arange(found.shape[-1]) == np.asarray(labels)[:, None]
    # The other labels' probabilities are summed, not subtracted from one: near certainty, 1 - p would round
    # to the same few values for all records.
    right, wrong = (np.where(part, found, 0.0).sum(axis=-1) for part in (own, ~own))
    logits: Floats = np.log(np.maximum(right, LEAST)) - np.log(np.maximum(wrong, LEAST))
    return logits


def loss_scores(confidence: Floats) -> Floats:
    """Return log p of each record, the score of the loss-threshold attack: less loss, more like a member."""
    scores: Floats = -np.logaddexp(0.0, -confidence)
    return scores


def lira_scores(observed: Floats, shadows: Floats, inside: Flags) -> Floats:
    """Return log N(observed; mu_in, var_in) - log N(observed; mu_out, var_out) of each record.

    `shadows` has a row of confidences for each shadow model, and `inside` tells which records it has learnt.
    Every record must be learnt by at least two models, and not learnt by at least two.
    """
    learnt, ignored = (_normal(shadows, flags) for flags in (inside, ~inside))
    scores: Floats = _log_density(observed, *learnt) - _log_density(observed, *ignored)
    return scores


def aligned(observed: Floats, shadows: Floats) -> Floats:
    """Scale the confidences to the mean and spread that they have in the shadow models.

    The attacked system is an average over sequences and so surer or less sure throughout than a single model,
    which says nothing about any one record.
    """
    spread = float(np.mean(shadows.std(axis=1))) / max(float(observed.std()), LEAST_VARIANCE)
    found: Floats = (observed - observed.mean()) * spread + shadows.mean()
    return found


def halves(records: int, shadows: int, seed: int) -> Flags:
    """Draw which records each shadow model (row) learns: one half, and the next model the other half.

    So every record is learnt by half of the models, whose number must be even.
    """
    rng = np.random.default_rng(seed)
    inside: Flags = np.zeros((shadows, records), dtype=np.bool_)
    for first in range(0, shadows, 2):
        inside[first, rng.permutation(records)[: records // 2]] = True
        inside[first + 1] = ~inside[first]
    return inside


def match(members: ArrayLike, others: ArrayLike, seed: int) -> tuple[Rows, Rows]:
    """Choose rows of members, and for each of them rows of others with the same label.

    Attacks compare the two, and a difference in labels alone must not look like success. Returns the members'
    rows, and the others' rows with a column for each member. Each member gets the same number of others, as
    many as the labels allow. Where a label is rarer among the others, members are left out; nothing is left
    if no label is common to both.
    """
    rng = np.random.default_rng(seed)
    mine, theirs = np.asarray(members), np.asarray(others)
    drawn = {
        label: (
            rng.permutation(np.flatnonzero(mine == label)),
            rng.permutation(np.flatnonzero(theirs == label)),
        )
        for label in np.unique(mine)
    }
    sizes = {label: min(len(ours), len(rest)) for label, (ours, rest) in drawn.items()}
    common = [label for label, size in sizes.items() if size]
    each = min((len(drawn[label][1]) // sizes[label] for label in common), default=1)
    rows: Rows = np.zeros(0, dtype=np.int64)
    columns: Rows = np.zeros((each, 0), dtype=np.int64)
    for label in common:
        ours, rest = drawn[label]
        rows = np.append(rows, ours[: sizes[label]])
        columns = np.append(columns, rest[: each * sizes[label]].reshape(each, -1), axis=1)
    return rows, columns


def auc(members: Floats, others: Floats) -> Interval:
    """Return the probability that a member scores higher than another record (Mann-Whitney); ties count half.

    The interval is DeLong's (1988). If that has no width, it is Hanley and McNeil's (1982); if moreover all
    members are on one side of all others, it is the exact interval of that many independent pairs.
    """
    above, below = _placements(members, others)
    count = (len(above), len(below))
    value = float(above.sum()) / (2 * count[0] * count[1])
    variance = _variance(above, below)
    if variance > 0:
        return _wald(value, variance, "DeLong")
    if 0 < value < 1:
        return _wald(value, _hanley_mcneil(value, *count), "Hanley-McNeil")
    least = 0.025 ** (1 / min(count))
    return Interval(value, least, 1.0, "exact") if value else Interval(value, 0.0, 1 - least, "exact")


def drop(before: tuple[Floats, Floats], after: tuple[Floats, Floats]) -> Interval:
    """Return the AUC before minus that after on the same records, with DeLong's interval for paired curves.

    If deleted and unseen records differ for other reasons, both AUCs move alike, and the difference does not.
    """
    above, below = (one - two for one, two in zip(_placements(*before), _placements(*after), strict=True))
    value = float(above.sum()) / (2 * len(above) * len(below))
    return _wald(value, _variance(above, below), "DeLong", least=-1.0)


def true_positives(members: Floats, others: Floats, percent: int) -> float | None:
    """Return the share of members above the threshold that at most `percent` % of the others exceed.

    None if that would be less than one of the others.
    """
    allowed = len(others) * percent // 100
    if not allowed:
        return None
    threshold = np.sort(others)[-allowed - 1]
    return float((members > threshold).mean())


def roc(members: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Return false and true positive rates as the threshold goes down, from (0, 0) to (1, 1)."""
    thresholds = np.unique(np.concatenate([members, others]))
    rates = [
        np.append(1 - np.searchsorted(np.sort(scores), thresholds) / len(scores), 0.0)[::-1]
        for scores in (others, members)
    ]
    return rates[0], rates[1]


def _normal(shadows: Floats, flags: Flags) -> tuple[Floats, Floats]:
    """Return mean and variance of each record's confidence over the shadow models flagged for it."""
    count = flags.sum(axis=0)
    mean = np.where(flags, shadows, 0.0).sum(axis=0) / count
    variance = np.where(flags, (shadows - mean) ** 2, 0.0).sum(axis=0) / (count - 1)
    if len(shadows) < OWN_VARIANCE:
        variance = np.full_like(variance, variance.mean())
    return mean, np.maximum(variance, LEAST_VARIANCE)


def _log_density(value: Floats, mean: Floats, variance: Floats) -> Floats:
    found: Floats = -0.5 * ((value - mean) ** 2 / variance + np.log(variance))
    return found


def _placements(members: Floats, others: Floats) -> tuple[Rows, Rows]:
    """Count, twice, the others below each member and the members above each other record.

    Doubled so that ties, which count half, stay whole numbers and sums are exact.
    """
    if not len(members) or not len(others) or not np.isfinite([members.sum(), others.sum()]).all():
        raise ValueError("scores of members and of others are needed, all of them finite")
    ordered, mine = np.sort(others), np.sort(members)
    above: Rows = np.searchsorted(ordered, members) + np.searchsorted(ordered, members, side="right")
    lower = np.searchsorted(mine, others) + np.searchsorted(mine, others, side="right")
    return above, 2 * len(members) - lower


def _variance(above: Rows, below: Rows) -> float:
    """Return the AUC's variance by its structural components (DeLong); 0 if there is a single record."""
    if min(len(above), len(below)) < 2:
        return 0.0
    scale = (2 * len(below)) ** 2 * len(above), (2 * len(above)) ** 2 * len(below)
    return float(above.var(ddof=1)) / scale[0] + float(below.var(ddof=1)) / scale[1]


def _hanley_mcneil(value: float, members: int, others: int) -> float:
    one, two = value / (2 - value), 2 * value**2 / (1 + value)
    rest = (members - 1) * (one - value**2) + (others - 1) * (two - value**2)
    return (value * (1 - value) + rest) / (members * others)


def _wald(value: float, variance: float, method: str, least: float = 0.0) -> Interval:
    half = Z * sqrt(variance)
    return Interval(value, max(least, value - half), min(1.0, value + half), method)
