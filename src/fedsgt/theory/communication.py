"""Costs of training: rounds that a client takes part in, and passes over the data."""

from collections.abc import Iterable
from fractions import Fraction
from math import comb

from fedsgt.theory.numbers import check_slices, check_whole, distinct_groups, sizes_of_chosen
from fedsgt.window import Window


def groups_joined_independent(groups: int, slices: int, joined: int) -> Fraction:
    """Return Pr(K = joined) if each of a client's slices picks its group independently.

    Eq. (K-dist-app), appendix 'Detailed Communication Cost Derivation': C(L,k) k! S(S,k) / L^S. The
    paper's own grouping is balanced, so its slices are not independent: see `groups_joined_balanced`.
    """
    groups = check_whole("groups", groups, 1)
    slices = check_whole("slices", slices, 1)
    joined = check_whole("joined", joined, 0, groups)
    return distinct_groups(groups, slices, joined)


def groups_joined_balanced(clients: int, slices: int, groups: int, joined: int) -> Fraction:
    """Return Pr(K = joined) if all clients' slices are dealt to groups of equal size at random.

    Corrects Eq. (K-dist-app): with M = N*S slices and q = M/L it is
    C(L,k) sum_j (-1)^j C(k,j) C((k-j)q, S) / C(M,S). Here in the equal form
    sum_j (-1)^(k-j) C(L-j, k-j) (S-subsets of slices within j groups, over all choices of the j), which
    holds also for groups of floor and ceil size.
    """
    clients, slices, groups = check_slices(clients, slices, groups)
    joined = check_whole("joined", joined, 0, groups)
    # Inclusion and exclusion over the groups that may hold the client's slices.
    ways = sum(
        (-1) ** (joined - among) * comb(groups - among, joined - among) * comb(size, slices) * count
        for among in range(joined + 1)
        for size, count in sizes_of_chosen(clients * slices, groups, among)
    )
    # A client's slices are a random S-subset of all slices, so ways are counted among these.
    return Fraction(ways, comb(clients * slices, slices))


def client_rounds_independent(
    groups: int, slices: int, budget: int | None = None, window: Window = None
) -> Fraction:
    """Return B (L+1) sum_k Pr(K=k) k/(k+1), a client's expected rounds if slices were independent.

    Eq. (main-comm), section 'Communication Overhead', for any budget; `budget` None is the paper's B = L.
    With the window "own" a client takes part only in phases on its own groups: B sum_k Pr(K=k) k.
    """
    groups = check_whole("groups", groups, 1)
    slices = check_whole("slices", slices, 1)
    law = (groups_joined_independent(groups, slices, joined) for joined in range(min(groups, slices) + 1))
    return _client_rounds(groups, budget, law, window)


def client_rounds_balanced(
    clients: int, slices: int, groups: int, budget: int | None = None, window: Window = None
) -> Fraction:
    """Return B (L+1) sum_k Pr(K=k) k/(k+1), a client's expected rounds under balanced grouping.

    Corrects Eq. (main-comm) by the law of `groups_joined_balanced`; `budget` None is B = L. With
    the window "own" it is B sum_k Pr(K=k) k.
    """
    clients, slices, groups = check_slices(clients, slices, groups)
    law = (groups_joined_balanced(clients, slices, groups, k) for k in range(min(groups, slices) + 1))
    return _client_rounds(groups, budget, law, window)


def _client_rounds(groups: int, budget: int | None, law: Iterable[Fraction], window: Window) -> Fraction:
    """Average Eq. (cost-K-app) over the law of K: a client takes part from the first of its groups on."""
    sequences = groups if budget is None else check_whole("budget", budget, 1)
    if window == "own":
        return sequences * sum((chance * k for k, chance in enumerate(law)), Fraction(0))
    # The first of k random places is at (L+1)/(k+1) on average, which leaves (L+1) k/(k+1) phases.
    share = sum((chance * Fraction(k, k + 1) for k, chance in enumerate(law)), Fraction(0))
    return sequences * (groups + 1) * share


def passes(groups: int, budget: int, window: Window = None) -> Fraction:
    """Return B (L+1)/2, the passes over all data that B sequences take for each local epoch.

    Section 'Training Complexity', C_train without E, |D| and P; phase i passes over i of the L groups. With a
    window of m <= L groups it passes over min(i, m) of them, which makes B m (2L-m+1) / (2L), and B with the
    window "own" (extends the paper).
    """
    groups = check_whole("groups", groups, 1)
    most = (
        1 if window == "own" else groups if window is None else min(groups, check_whole("window", window, 1))
    )
    return Fraction(check_whole("budget", budget, 1) * most * (2 * groups - most + 1), 2 * groups)


def matched_budget(rounds: int, groups: int) -> Fraction:
    """Return 2 T L / (L+1), the budget that costs as much as FedAvg's T rounds on L modules.

    The boxed formula of section 'Training Complexity'. At T = L = 10 the paper's text says about 36; its
    own formula gives 18.18.
    """
    groups = check_whole("groups", groups, 1)
    return Fraction(2 * check_whole("rounds", rounds, 1) * groups, groups + 1)


def matched_budget_passes(rounds: int, groups: int, window: Window = None) -> Fraction:
    """Return 2 T / (L+1), the budget at which FedSGT's passes, B (L+1)/2, equal FedAvg's T.

    Corrects the boxed formula of section 'Training Complexity', which charges FedAvg L times for each
    pass. At T = L = 10 it is 20/11, and B = L = 10 costs 55 passes against 10. With a window a sequence costs
    less: at m = 1 ten of them cost FedAvg's ten passes.
    """
    return check_whole("rounds", rounds, 1) / passes(groups, 1, window)
