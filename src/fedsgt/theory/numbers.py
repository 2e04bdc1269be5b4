"""Checks and counts that the closed forms share: Stirling numbers, groups hit, sizes of groups."""

import operator
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import comb, perm

from fedsgt.errors import InputError


def as_whole(name: str, value: int) -> int:
    """Return `value` as an int, whatever kind of integer it is; raise InputError if it is none."""
    try:
        # Takes numpy's integers too, and refuses floats such as 3.0.
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} is {value!r}: must be a whole number") from None


def check_whole(name: str, value: int, least: int, most: int | None = None) -> int:
    """Return `value` as an int; raise InputError if it is out of bounds."""
    whole = as_whole(name, value)
    if whole < least or (most is not None and whole > most):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name} is {whole}: must be {allowed}")
    return whole


def harmonic(terms: int) -> Fraction:
    """Return H_n = 1 + 1/2 + ... + 1/n."""
    return sum((Fraction(1, term) for term in range(1, terms + 1)), Fraction(0))


@lru_cache(maxsize=4096)
def stirling_row(items: int, most_blocks: int) -> tuple[int, ...]:
    """Return the Stirling numbers of the second kind S(items, m) for m = 0..most_blocks."""
    row = [1] + [0] * most_blocks
    for _ in range(items):
        # Downwards, so that row[blocks - 1] is still the previous row's.
        for blocks in range(most_blocks, 0, -1):
            row[blocks] = blocks * row[blocks] + row[blocks - 1]
        row[0] = 0
    return tuple(row)


def streams_by_hit(groups: int, requests: int) -> tuple[int, ...]:
    """Count the streams of requests that hit exactly m distinct groups, for m = 0..groups."""
    return tuple(perm(groups, hit) * ways for hit, ways in enumerate(stirling_row(requests, groups)))


def distinct_groups(groups: int, requests: int, hit: int) -> Fraction:
    """Return Pr(M = hit), the chance that uniform requests hit exactly `hit` distinct groups.

    Eq. (Pr(M=m)), appendix 'Unlearning Performance Analysis': C(L,m) m! S(r,m) / L^r.
    Extends the paper to no requests at all, when M = 0 surely.
    """
    groups = check_whole("groups", groups, 1)
    requests = check_whole("requests", requests, 0)
    hit = check_whole("hit", hit, 0, groups)
    return Fraction(streams_by_hit(groups, requests)[hit], groups**requests)


def sizes_of_chosen(slices: int, groups: int, chosen: int) -> Iterator[tuple[int, int]]:
    """Yield (slices held together, number of ways) over all ways to choose `chosen` balanced groups.

    `slices` in all are cut into `groups` groups of floor or ceil size, so slices mod groups are one larger.
    """
    size, larger = divmod(slices, groups)
    # `large` of the chosen groups are of the larger size; the bounds keep both choices possible.
    for large in range(max(0, chosen - (groups - larger)), min(chosen, larger) + 1):
        yield chosen * size + large, comb(larger, large) * comb(groups - larger, chosen - large)


def check_slices(clients: int, slices: int, groups: int) -> tuple[int, int, int]:
    """Check a federation of `clients` with `slices` each, cut into `groups`; no group may be left empty."""
    clients = check_whole("clients", clients, 1)
    slices = check_whole("slices", slices, 1)
    groups = check_whole("groups", groups, 1)
    if groups > clients * slices:
        raise InputError(f"groups is {groups}: must be from 1 to clients x slices = {clients * slices}")
    return clients, slices, groups
