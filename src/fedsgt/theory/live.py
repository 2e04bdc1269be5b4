"""Live groups of the best sequence after uniform requests (the paper's E[U] and E[R])."""

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import comb

from fedsgt.errors import InputError
from fedsgt.theory.numbers import as_whole, check_whole, streams_by_hit


def span_given(groups: int, hit: int) -> Fraction:
    """Return E[U | M = hit], the expected cyclic span if exactly `hit` distinct groups were hit.

    Section 'Performance Guarantee' and appendix 'Unlearning Performance Analysis', as finally printed there.
    It is the mean of L - (largest cyclic gap) + 1; the appendix's first definition, a maximum minus a
    minimum, misses that 1. Extends the paper to hit = 0, whose span is 0.
    """
    groups = check_whole("groups", groups, 1)
    hit = check_whole("hit", hit, 0, groups)
    return _spans_given(groups)[hit]


@lru_cache(maxsize=256)
def _spans_given(groups: int) -> tuple[Fraction, ...]:
    """Return E[U | M = m] for m = 0..groups."""
    means = [Fraction(0)]
    for hit in range(1, groups + 1):
        # L minus the largest gap is the number of lengths below L that the largest gap does not exceed.
        narrow = sum(_gaps_at_most(groups, hit, gap) for gap in range(1, groups))
        means.append(1 + Fraction(narrow, comb(groups - 1, hit - 1)))
    return tuple(means)


def _gaps_at_most(groups: int, hit: int, gap: int) -> int:
    """Count the ways to cut a circle into `hit` gaps of at most `gap` (Eq. (Pr(max_d<=s|M=m)))."""
    return sum(
        (-1) ** wide * comb(hit, wide) * comb(groups - 1 - wide * gap, hit - 1)
        for wide in range((groups - hit) // gap + 1)
    )


def span(groups: int, requests: int) -> Fraction:
    """Return E[U], the expected cyclic span after uniform requests, for rotations with B >= L.

    The last equation of the appendix's 'Unlearning Performance Analysis': sum over m of
    Pr(M=m) E[U | M=m]. Extends the paper to requests = 0, whose span is 0.
    """
    groups = check_whole("groups", groups, 1)
    requests = check_whole("requests", requests, 0)
    weighted = zip(streams_by_hit(groups, requests), _spans_given(groups), strict=True)
    total = sum((streams * mean for streams, mean in weighted if streams), Fraction(0))
    return total / Fraction(groups**requests)


def expected_live(groups: int, requests: int) -> Fraction:
    """Return L - E[U], the expected live groups of the best sequence, for rotations with B = L.

    Section 'Performance Guarantee': the paper's E[R] is D/L times this, D being the number of records.
    """
    groups = check_whole("groups", groups, 1)
    return groups - span(groups, requests)


def expected_live_offsets(groups: int, offsets: Iterable[int], requests: int) -> Fraction:
    """Return the expected live groups of the best sequence, for rotations by any set of offsets.

    Extends the paper, which calls E[R] at B < L difficult (section 'Performance Guarantee'); with all
    offsets it equals `expected_live`. Sequence k is [0..L-1] rotated right by its offset, so it starts at
    group -offset mod L. Offsets are taken modulo L and repeated ones count once.

    E[live] = sum over k = 1..L of P(some sequence has its first k groups unhit). That sum is L minus the
    sum of P(the hit groups meet the first k groups of every sequence), and given M = m every m-subset of
    the circle is equally likely, so it is enough to count the subsets that meet all those arcs.
    """
    groups = check_whole("groups", groups, 1)
    # Rotated right by an offset, a sequence starts at minus that offset.
    starts = tuple(sorted({-as_whole("offset", offset) % groups for offset in offsets}))
    if not starts:
        raise InputError("offsets is empty: must hold at least one offset")
    requests = check_whole("requests", requests, 0)
    streams = streams_by_hit(groups, requests)
    hitting = _subsets_meeting_first_groups(groups, starts)
    lost = sum(
        (Fraction(streams[hit] * hitting[hit], comb(groups, hit)) for hit in range(1, groups + 1)),
        Fraction(0),
    )
    return groups - lost / Fraction(groups**requests)


@lru_cache(maxsize=1024)
def _subsets_meeting_first_groups(groups: int, starts: tuple[int, ...]) -> tuple[int, ...]:
    """Count the m-subsets, m = 0..groups, that meet every arc [start, start + k), summed over all k."""
    # A polynomial whose m-th coefficient counts subsets of m groups is packed into one integer with this
    # many bits for each coefficient: none exceeds groups * C(groups, m), and additions are then plain.
    width = 2 * groups
    packed = sum(_packed_meeting(groups, starts, arc, width) for arc in range(1, groups + 1))
    return tuple(packed >> hit * width & (1 << width) - 1 for hit in range(groups + 1))


def _packed_meeting(groups: int, starts: tuple[int, ...], arc: int, width: int) -> int:
    """Return packed counts of the subsets of the circle that meet every arc of `arc` groups from a start."""
    furthest = _furthest_next_hit(groups, starts, arc)
    return sum(_packed_from_first(groups, first, furthest, width) for first in range(groups))


def _furthest_next_hit(groups: int, starts: tuple[int, ...], arc: int) -> list[int]:
    """Return, for each hit position, how far the next hit may be without an arc missed in between."""
    around = [*starts, *(start + groups for start in starts)]
    limits = [starts[0] + arc - 1] * starts[0]
    for start, following in pairwise(around):
        limits += [following + arc - 1] * (following - start)
    return limits[:groups]


def _packed_from_first(groups: int, first: int, furthest: list[int], width: int) -> int:
    """Return packed counts of the valid subsets with lowest position `first`, by a walk round the circle."""
    ways = [1 << width]
    oldest = first
    totals = [0, 1 << width]  # totals[i] is the sum of the ways of the first i positions from `first` on
    for position in range(first + 1, groups):
        # The limits never fall from one position to the next, so those that reach here are a window.
        while furthest[oldest] < position:
            oldest += 1
        ways.append((totals[-1] - totals[oldest - first]) << width)
        totals.append(totals[-1] + ways[-1])
    # The last hit must reach round the circle to the first one.
    home = first + groups
    return sum(count for last, count in enumerate(ways, start=first) if furthest[last] >= home)


def fedcio_expected_remaining(clusters: int, requests: int) -> Fraction:
    """Return (1 - 1/c)^r, the expected share of all data that FedCIO's unhit clusters hold.

    Section 'Performance Guarantee', E[R] / D for FedCIO. It adds up the data of disjoint models, each
    trained on its own cluster only, so it is not comparable one to one with the data behind a single
    sequence (`expected_live` / L).
    """
    clusters = check_whole("clusters", clusters, 1)
    requests = check_whole("requests", requests, 0)
    return Fraction(clusters - 1, clusters) ** requests
