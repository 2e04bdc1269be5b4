"""Requests that a system survives: the mean number (deletion rate) and whole survival curves.

A system lives as long as one of its roots, the distinct first groups of its sequences, is unhit.
"""

import math
import numbers
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import comb

from fedsgt.errors import InputError
from fedsgt.theory.numbers import check_slices, check_whole, harmonic, sizes_of_chosen

# Floats are rounded, so the sum of a prior of floats may be off by this; fractions must sum to 1 exactly.
_FLOAT_PRIOR_TOLERANCE = Fraction(1, 10**9)
# About a quarter of a gigabyte; each further root may double it.
_MOST_SUBSET_SUMS = 1 << 20
# Beyond this the denominator of the exact sum alone has tens of thousands of digits.
_MOST_EXACT_TERMS = 1 << 12
_FRACTION_BITS = 256  # the rounding of a million terms still leaves more than 200 of them exact


def deletion_rate(groups: int, budget: int) -> Fraction:
    """Return L * H_min(L,B), the expected number of uniform requests up to and with the failing one.

    Section 'Deletion Rate' and appendix 'Detailed Deletion Rate Derivation'. It needs min(L,B) distinct
    first groups, and it counts the failing request: see `requests_survived`.
    """
    groups = check_whole("groups", groups, 1)
    budget = check_whole("budget", budget, 1)
    return groups * harmonic(min(groups, budget))


def requests_survived(groups: int, budget: int) -> Fraction:
    """Return L * H_min(L,B) - 1, the expected number of requests after which a module still serves.

    Corrects the paper's reading of its deletion rate, which counts the failing request too.
    """
    return deletion_rate(groups, budget) - 1


def fedcio_deletion_rate(clusters: int) -> Fraction:
    """Return c * H_c, FedCIO's deletion rate (section 'Deletion Rate'), with the failing request counted."""
    clusters = check_whole("clusters", clusters, 1)
    return clusters * harmonic(clusters)


def survival(groups: int, roots: int, requests: int) -> Fraction:
    """Return P(at least one of `roots` distinct first groups is unhit after so many uniform requests).

    Extends the paper, which gives only the mean: inclusion-exclusion over the roots. The failing request T
    is later than r exactly when the system is alive after r, so P(T <= r) = 1 - survival(groups, roots, r).
    """
    groups = check_whole("groups", groups, 1)
    roots = check_whole("roots", roots, 1, groups)
    requests = check_whole("requests", requests, 0)
    streams = sum(
        (-1) ** (unhit + 1) * comb(roots, unhit) * (groups - unhit) ** requests
        for unhit in range(1, roots + 1)
    )
    return Fraction(streams, groups**requests)


def deletion_rate_weighted(prior: Sequence[int | float | Fraction], roots: Iterable[int]) -> Fraction | float:
    """Return the expected requests up to the failing one if a request hits group g with chance prior[g].

    Extends the paper's deletion rate to non-uniform requests: E[T] is the sum over nonempty subsets A of
    the roots of (-1)^(|A|+1) / p(A). A root that is never hit keeps the system alive: math.inf.

    Subsets of equal probability are merged, so priors with few distinct values are cheap at any number of
    roots; with all values different the cost is O(2^roots), and beyond 4096 different sums (12 such roots)
    the result is no longer exact but within 2^-200 of it. `Plan.deletion_rate` is the vectorised float form.
    """
    weights = _weights(prior)
    of_roots = _weights_of_roots(weights, roots)
    # Such a root would divide by zero below.
    if 0 in of_roots:
        return math.inf
    # Subsets that hit with chance 0 are the empty one only; all others have a finite waiting time.
    total = sum(weights)
    terms = [(net * total, hit) for hit, net in _signed_subset_sums(of_roots).items() if hit]
    # Beyond the exact sum, fixed-point numbers: each term is rounded down by less than 2^-256.
    if len(terms) <= _MOST_EXACT_TERMS:
        return _sum_in_halves([Fraction(*term) for term in terms])
    return Fraction(sum((over << _FRACTION_BITS) // under for over, under in terms), 1 << _FRACTION_BITS)


def survival_weighted(
    prior: Sequence[int | float | Fraction], roots: Iterable[int], requests: int
) -> Fraction:
    """Return P(at least one root is unhit) if a request hits group g with probability prior[g].

    Extends the paper to non-uniform requests, by inclusion-exclusion as in `deletion_rate_weighted`; exact
    at every size, at the same cost.
    """
    weights = _weights(prior)
    nets = _signed_subset_sums(_weights_of_roots(weights, roots))
    requests = check_whole("requests", requests, 0)
    total = sum(weights)
    # The empty subset is among the sums, with net -1: adding 1 takes it out again.
    return 1 + Fraction(sum(net * (total - hit) ** requests for hit, net in nets.items()), total**requests)


def _weights(prior: Sequence[int | float | Fraction]) -> list[int]:
    """Return whole numbers in the proportions of the prior; this normalises a prior of floats."""
    shares = [_share(group, value) for group, value in enumerate(prior)]
    total = sum(shares, Fraction(0))
    # Floats cannot sum to 1 exactly, fractions can and must.
    exact = all(isinstance(value, numbers.Rational) for value in prior)
    if abs(total - 1) > (0 if exact else _FLOAT_PRIOR_TOLERANCE):
        shown = total if exact else float(total)
        raise InputError(f"prior sums to {shown}: must sum to 1{'' if exact else ' within 1e-9'}")
    # Whole numbers make the subset sums below exact and cheap to compare.
    scale = math.lcm(*(share.denominator for share in shares))
    weights = [int(share * scale) for share in shares]
    common = math.gcd(*weights)
    return [weight // common for weight in weights]


def _share(group: int, value: int | float | Fraction) -> Fraction:
    """Return the prior of a group as an exact fraction, checked."""
    if isinstance(value, numbers.Rational):
        share = Fraction(int(value.numerator), int(value.denominator))
    elif isinstance(value, numbers.Real) and math.isfinite(value):
        share = Fraction(float(value))
    else:
        raise InputError(f"prior of group {group} is {value!r}: must be a number from 0 to 1")
    if share < 0:
        raise InputError(f"prior of group {group} is {value}: must be a number from 0 to 1")
    return share


def _weights_of_roots(weights: list[int], roots: Iterable[int]) -> list[int]:
    """Return the weights of the distinct roots; sequences with the same first group die together."""
    distinct = sorted({check_whole("root", root, 0, len(weights) - 1) for root in roots})
    if not distinct:
        raise InputError("roots is empty: must hold at least one group")
    return [weights[root] for root in distinct]


def _signed_subset_sums(weights: list[int]) -> dict[int, int]:
    """Return the total of (-1)^(|A|+1) over the subsets A, the empty one too, by their sum of weights."""
    nets = {0: -1}
    for weight in weights:
        # A copy, because the loop adds to the dictionary; sums that meet are merged.
        for together, net in list(nets.items()):
            nets[together + weight] = nets.get(together + weight, 0) - net
        if len(nets) > _MOST_SUBSET_SUMS:
            raise InputError(
                f"roots is {len(weights)} groups whose priors differ: must be so few or so alike that "
                f"their subsets have at most {_MOST_SUBSET_SUMS} sums"
            )
    return nets


def _sum_in_halves(terms: list[Fraction]) -> Fraction:
    """Sum by halves; adding one by one would carry the whole denominator through every step."""
    if len(terms) <= 2:
        return sum(terms, Fraction(0))
    middle = len(terms) // 2
    return _sum_in_halves(terms[:middle]) + _sum_in_halves(terms[middle:])


def survival_clients(clients: int, slices: int, groups: int, roots: int, requests: int) -> Fraction:
    """Return P(one of `roots` groups is unhit after `requests` different clients have left).

    Extends the paper, whose requests hit one group each: a client hits every group that holds one of its
    slices. Under balanced random grouping the slices of t clients are t*S random ones of the N*S, so this
    is inclusion-exclusion over the roots; where L does not divide N*S, which groups are larger is random.
    """
    clients, slices, groups = check_slices(clients, slices, groups)
    roots = check_whole("roots", roots, 1, groups)
    requests = check_whole("requests", requests, 0, clients)
    # Under balanced random grouping only the number of slices that left matters.
    gone, all_slices = requests * slices, clients * slices
    alive = sum(
        (-1) ** (unhit + 1) * comb(roots, unhit) * _mean_ways_to_miss(all_slices, groups, unhit, gone)
        for unhit in range(1, roots + 1)
    )
    return Fraction(alive, comb(all_slices, gone))


def _mean_ways_to_miss(slices: int, groups: int, unhit: int, gone: int) -> Fraction:
    """Return the ways to take `gone` slices, none from `unhit` groups, averaged over the larger groups."""
    ways = sum(comb(slices - size, gone) * count for size, count in sizes_of_chosen(slices, groups, unhit))
    return Fraction(ways, comb(groups, unhit))


def deletion_rate_clients(clients: int, slices: int, groups: int, roots: int) -> Fraction:
    """Return the expected whole-client requests up to and with the failing one; no client leaves twice.

    Extends the paper's deletion rate as `survival_clients` does: the sum over t of P(alive after t). More
    slices spread a client over more groups, so they cost availability.
    """
    clients, slices, groups = check_slices(clients, slices, groups)
    return sum(
        (survival_clients(clients, slices, groups, roots, left) for left in range(clients)), Fraction(0)
    )


def fedcio_deletion_rate_clients(clients: int, clusters: int) -> Fraction:
    """Return FedCIO's expected whole-client requests up to the failing one, for balanced clusters.

    Extends the paper's c * H_c, in which a client may leave many times. A cluster is a group of unsliced
    clients, and each is a root.
    """
    clients = check_whole("clients", clients, 1)
    clusters = check_whole("clusters", clusters, 1, clients)
    return deletion_rate_clients(clients, 1, clusters, clusters)
