"""Sufficient statistics of a ridge classifier over features, as integers (definition 10).

Features are quantised one record at a time, and sums of integers are exact. So the order of adding does not
matter, and what is left after records are taken away has the very bytes of a statistic made without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.words import counted

Integers: TypeAlias = NDArray[np.int64]

LARGEST_FEATURE = 64.0  # trunks end with a normalisation, whose outputs are far smaller
# Sums of products of integers of 16 bits are exact in float64 up to 2**23 records.
RECORDS_AT_ONCE = 1 << 16
# Rounding in float64 may move an eigenvalue this much where each feature is measured by its own squares. No
# entry is larger than 1 there, and each is wrong by less than (labels + 20) / 2**53; Cholesky's factorisation
# is exact for entries that are another (width + 2) / 2**53 away. An eigenvalue moves by at most width times
# that: with 2,048 features and 1,000 labels by 7e-10. With honest statistics of that width 4e-11 was the most
# seen.
TOLERANCE = 1e-9


class RefusedStatistic(InputError):
    """A statistic that no records can have; `client` sent it."""

    def __init__(self, client: str, reason: str) -> None:
        super().__init__(f"client {client}: statistic refused: {reason}")
        self.client, self.reason = client, reason


def unit(bits: int) -> int:
    """Return the integer that stands for a feature of 1."""
    return int((1 << (bits - 1)) / LARGEST_FEATURE)


def largest(bits: int) -> int:
    """Return the largest integer that a feature can become; larger features are cut to it."""
    return (1 << (bits - 1)) - 1


def most_records(bits: int) -> int:
    """Return the number of records up to which no sum can overflow 64 bits."""
    return int((2**63 - 1) // largest(bits) ** 2)


def quantise(features: NDArray[np.floating[Any]], bits: int) -> Integers:
    """Return the features (a row for each record) as integers, with a column for the 1 appended."""
    scaled = np.rint(features.astype(np.float64) * unit(bits))
    if not np.isfinite(scaled).all():
        raise InputError("a feature is not a finite number; the model or the record is damaged")
    whole = np.clip(scaled, -largest(bits), largest(bits)).astype(np.int64)
    return np.hstack([whole, np.full((len(whole), 1), unit(bits), np.int64)])


@dataclass(frozen=True, eq=False)
class Statistic:
    """Sums over some records: of products of features, and of features by label."""

    gram: Integers
    """Upper triangle, row by row, of the sum of f f', where f is a record's features and a 1."""
    cross: Integers
    """Sum of f y', where y has a 1 at the record's label: a row for each feature, a column for each label."""
    records: int
    bits: int

    @classmethod
    def empty(cls, width: int, labels: int, bits: int) -> Self:
        """Return the statistic of no record with `width` features."""
        size = width + 1
        gram = np.zeros(size * (size + 1) // 2, np.int64)
        return cls(gram, np.zeros((size, labels), np.int64), 0, bits)

    @classmethod
    def of(cls, features: NDArray[np.floating[Any]], labels: Sequence[int], count: int, bits: int) -> Self:
        """Return the statistic of records with these features, and labels out of `count`."""
        found = cls.empty(features.shape[1], count, bits)
        for start in range(0, len(features), RECORDS_AT_ONCE):
            chosen = slice(start, start + RECORDS_AT_ONCE)
            found += cls._of_few(quantise(features[chosen], bits), labels[chosen], count, bits)
        return found

    @classmethod
    def _of_few(cls, whole: Integers, labels: Sequence[int], count: int, bits: int) -> Self:
        # NumPy multiplies integers slowly; in float64 the same products and sums are exact, and fast.
        exact = whole.astype(np.float64)
        targets = np.eye(count)[np.asarray(labels, np.int64)]
        gram = (exact.T @ exact)[np.triu_indices(whole.shape[1])].astype(np.int64)
        return cls(gram, (exact.T @ targets).astype(np.int64), len(whole), bits)

    @property
    def size(self) -> int:
        """Number of features, with the 1."""
        return len(self.cross)

    def __add__(self, other: Self) -> Self:
        self._check_alike(other)
        most = most_records(self.bits)
        if self.records + other.records > most:
            raise InputError(
                f"statistics of more than {counted(most, 'record')} of {self.bits} bits could overflow; set "
                "heads.bits to less"
            )
        return self._with(self.gram + other.gram, self.cross + other.cross, self.records + other.records)

    def __sub__(self, other: Self) -> Self:
        """Return the statistic without these records, which must be among its own."""
        self._check_alike(other)
        if other.records > self.records:
            raise InputError(f"{counted(other.records, 'record')} of {self.records} cannot be taken away")
        return self._with(self.gram - other.gram, self.cross - other.cross, self.records - other.records)

    def full_gram(self) -> Integers:
        """Return the whole matrix of the triangle."""
        full = np.zeros((self.size, self.size), np.int64)
        rows, columns = np.triu_indices(self.size)
        full[rows, columns] = full[columns, rows] = self.gram
        return full

    def _with(self, gram: Integers, cross: Integers, records: int) -> Self:
        return type(self)(gram, cross, records, self.bits)

    def _check_alike(self, other: Self) -> None:
        if (self.cross.shape, self.bits) != (other.cross.shape, other.bits):
            raise InputError(
                f"statistics differ: {self.cross.shape} of {self.bits} bits, "
                f"{other.cross.shape} of {other.bits}"
            )


def check_statistic(found: Statistic, expected: Statistic, records: int, client: str) -> None:
    """Raise `RefusedStatistic` unless some records can have this statistic.

    `expected` has the right shapes and bits; `records` is the largest number of records that the client has.
    """

    def refuse(reason: str) -> RefusedStatistic:
        return RefusedStatistic(client, reason)

    for name, array, right in (("gram", found.gram, expected.gram), ("cross", found.cross, expected.cross)):
        if array.dtype != np.int64 or array.shape != right.shape:
            raise refuse(f"{name} is {array.dtype} of shape {array.shape}; int64 of {right.shape} is needed")
    if found.bits != expected.bits:
        raise refuse(f"{found.bits} bits; {expected.bits} are needed")
    if not 0 <= found.records <= min(records, most_records(found.bits)):
        raise refuse(f"{counted(found.records, 'record')}, but the client has {records}")
    problem = _contradiction(found)
    if problem is not None:
        raise refuse(problem)


def _contradiction(found: Statistic) -> str | None:
    """Return what no records can have in common with the statistic; None if nothing is wrong."""
    one, most = unit(found.bits), largest(found.bits)
    # The largest are compared first: after that, no product below can overflow.
    if (
        _largest_size(found.gram) > found.records * most**2
        or _largest_size(found.cross) > found.records * most
    ):
        return f"a sum is too large for {counted(found.records, 'record')}"
    full = found.full_gram()
    counts, rest = np.divmod(found.cross[-1], one)
    if rest.any() or (counts < 0).any() or counts.sum() != found.records:
        return f"its labels are not those of {counted(found.records, 'record')}"
    # This comes before sums over labels, which otherwise could overflow.
    if (np.abs(found.cross) > counts * most).any():
        return "a label's sum is too large for its records"
    if full[-1, -1] != found.records * one**2 or (found.cross.sum(axis=1) * one != full[:, -1]).any():
        return "its sums contradict each other"
    return _impossible_products(full, found.cross, counts)


def _impossible_products(full: Integers, cross: Integers, counts: Integers) -> str | None:
    """Return what contradicts these products and sums by label, taken together; None if nothing does.

    The scatter within labels, G minus the sum of C_c C_c' / n_c over the labels c, sums the products of each
    record's differences from its label's mean. So it is positive, and its rank is at most the number of
    records less the number of labels that have any. Every such matrix is the scatter of some vectors, though
    perhaps not of bounded integers.
    """
    present = counts > 0
    # Each feature is measured by its own squares: a large one must not hide what a small one cannot have.
    scale = 1 / np.sqrt(np.maximum(full.diagonal(), 1)[:-1])
    products = full[:-1, :-1] * scale * scale[:, None]  # without the 1, whose row of the scatter is zero
    means = cross[:-1, present] * scale[:, None] / np.sqrt(counts[present])
    scatter = products - means @ means.T
    labels, records = int(present.sum()), int(counts.sum())
    if records - labels >= len(scatter):  # any rank is possible, and eigenvalues take longer to compute
        positive, rank = _is_positive(scatter), 0
    else:
        values = np.linalg.eigvalsh(scatter)
        positive, rank = not (values < -TOLERANCE).any(), int((values > TOLERANCE).sum())
    if not positive and not _is_positive(products):
        return "its matrix of products is not positive"
    if not positive:
        return "its sums by label are too large for its products"
    if rank > records - labels:
        return f"its products are those of at least {counted(rank + labels, 'record')}; it says {records}"
    return None


def _largest_size(array: Integers) -> int:
    # Python's integers: the absolute value of the smallest int64 is no int64.
    return max(int(array.max(initial=0)), -int(array.min(initial=0)))


def _is_positive(matrix: NDArray[np.float64]) -> bool:
    """Whether a matrix has no eigenvalue below zero, but for rounding."""
    try:
        np.linalg.cholesky(matrix + TOLERANCE * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True
