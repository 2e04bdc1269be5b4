"""Membership inference in numbers: what an attacker scores, and how well the scores tell members from others.

The attacks are the loss threshold (Yeom et al., 2018) and LiRA (Carlini et al., 2022, the online one): how
likely a record's confidence is among models that have learnt it, against those that have not.
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

Z = 1.959963984540054
# A float32 softmax gives no less; keeps the logarithms finite.
LEAST = 1e-45
# The paper's advice: with fewer shadow models a variance of each record's own is too rough.
OWN_VARIANCE = 64
LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % interval, and how that was found."""

    value: float
    low: float
    high: float
    method: str

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


def confidences(probabilities: NDArray[Any], labels: ArrayLike) -> Floats:
    """Logit-scaled confidence in each record's own label, log(p / (1 - p)); labels are on the last axis.

    The others' share is summed, not subtracted from one, so that sure answers keep their order.
    """
    found = probabilities.astype(np.float64)
    own = np.arange(found.shape[-1]) == np.asarray(labels)[:, None]
    right, wrong = (np.where(part, found, 0.0).sum(axis=-1) for part in (own, ~own))
    logits: Floats = np.log(np.maximum(right, LEAST)) - np.log(np.maximum(wrong, LEAST))
    return logits


def loss_scores(confidence: Floats) -> Floats:
    """The loss-threshold attack: log p, so that a record with less loss looks more like a member."""
    scores: Floats = -np.logaddexp(0.0, -confidence)
    return scores


def lira_scores(observed: Floats, shadows: Floats, inside: Flags) -> Floats:
    """log N(observed; mu_in, var_in) - log N(observed; mu_out, var_out), record by record.

    `shadows` has a row of confidences for each shadow model, `inside` says which records it learnt; every
    record must be inside at least twice, and outside at least twice.
    """
    learnt, ignored = (_normal(shadows, flags) for flags in (inside, ~inside))
    scores: Floats = _log_density(observed, *learnt) - _log_density(observed, *ignored)
    return scores


def aligned(observed: Floats, shadows: Floats) -> Floats:
    """The confidences with the mean and spread over records that shadow models have.

    The attacked system is not of their kind: it is an average over sequences, surer or less sure throughout.
    """
    spread = float(np.mean(shadows.std(axis=1))) / max(float(observed.std()), LEAST_VARIANCE)
    found: Floats = (observed - observed.mean()) * spread + shadows.mean()
    return found


def halves(records: int, shadows: int, seed: int) -> Flags:
    """Who learns what: each shadow model half of the records, each record half of the (even) shadow models.

    Of every two shadow models, one has the half that the other has not.
    """
    rng = np.random.default_rng(seed)
    inside: Flags = np.zeros((shadows, records), dtype=np.bool_)
    for first in range(0, shadows, 2):
        inside[first, rng.permutation(records)[: records // 2]] = True
        inside[first + 1] = ~inside[first]
    return inside


def match(members: ArrayLike, others: ArrayLike, seed: int) -> tuple[Rows, Rows]:
    """Rows of both such that labels occur in equal shares: a column of others for each member, of its label.

    As many rows of others as there can be for every member. A label that others have less often than members
    leaves out members; nothing is left when they have no label in common.
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
    """The chance that a member scores higher than another, ties counting half (Mann-Whitney).

    The interval is DeLong's (1988). Where that has no width: Hanley and McNeil's (1982), or, if all members
    are on one side of all others, the exact one of as many independent pairs as there are.
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
    """AUC before minus AUC after, of the same members and others: DeLong's interval for paired curves.

    What makes the two kinds of records unlike moves both, so it is not in the difference.
    """
    above, below = (one - two for one, two in zip(_placements(*before), _placements(*after), strict=True))
    value = float(above.sum()) / (2 * len(above) * len(below))
    return _wald(value, _variance(above, below), "DeLong", least=-1.0)


def true_positives(members: Floats, others: Floats, percent: int) -> float | None:
    """Share of members found when at most so many percent of others are; none if that is less than one."""
    allowed = len(others) * percent // 100
    if not allowed:
        return None
    threshold = np.sort(others)[-allowed - 1]
    return float((members > threshold).mean())


def roc(members: Floats, others: Floats) -> tuple[Floats, Floats]:
    """False and true positive rates as the threshold goes down, from (0, 0) to (1, 1)."""
    thresholds = np.unique(np.concatenate([members, others]))
    rates = [
        np.append(1 - np.searchsorted(np.sort(scores), thresholds) / len(scores), 0.0)[::-1]
        for scores in (others, members)
    ]
    return rates[0], rates[1]


def _normal(shadows: Floats, flags: Flags) -> tuple[Floats, Floats]:
    """Mean and variance of each record over the shadow models that have its flag."""
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
    """For each member twice the number of others below it, for each other twice that of members above it."""
    if not len(members) or not len(others) or not np.isfinite([members.sum(), others.sum()]).all():
        raise ValueError("scores of members and of others are needed, all of them finite")
    ordered, mine = np.sort(others), np.sort(members)
    above: Rows = np.searchsorted(ordered, members) + np.searchsorted(ordered, members, side="right")
    lower = np.searchsorted(mine, others) + np.searchsorted(mine, others, side="right")
    return above, 2 * len(members) - lower


def _variance(above: Rows, below: Rows) -> float:
    """Of the AUC, by its structural components; none, that is 0, can be told from a single record."""
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
