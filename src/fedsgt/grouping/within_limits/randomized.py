"""The default: groups drawn at random, within balance and limits, without a look at the data."""

import numpy as np

from fedsgt.errors import InputError
from fedsgt.grouping.problem import Hints, Ints, Problem
from fedsgt.grouping.within_limits import exact
from fedsgt.grouping.within_limits.mixing import mix
from fedsgt.grouping.within_limits.packing import fill, hardest_first, in_line, pack

LINES = 3
MOST_PACKED = 200_000


def random_groups(problem: Problem, hints: Hints, rng: np.random.Generator) -> Ints:
    """Algorithm 1: permute the slices, cut evenly. Where limits bind, any assignment within them, mixed."""
    if not problem.binding:
        return permuted(problem, rng)
    return mix(problem, any_assignment(problem, rng), rng)


def permuted(problem: Problem, rng: np.random.Generator) -> Ints:
    group_of = np.empty(problem.total, dtype=np.int64)
    group_of[rng.permutation(problem.total)] = np.repeat(np.arange(problem.groups), problem.sizes)
    return group_of


def any_assignment(problem: Problem, rng: np.random.Generator) -> Ints:
    """Some assignment within the limits: whole clients in a line, else packed, else found exactly."""
    for _ in range(LINES):
        group_of = in_line(problem, rng.permutation(len(problem.slices)))
        if problem.within_limits(group_of):
            return group_of
    clients = np.flatnonzero(problem.restricted)
    tries = int(np.clip(MOST_PACKED // len(clients), 2, 20))
    for jitter in np.linspace(0.0, 1.0, tries):
        pieces, stuck = pack(problem, hardest_first(problem, clients, rng, float(jitter)))
        if stuck is None:
            return fill(problem, pieces, rng)
    assert stuck is not None
    return _exact_assignment(problem, stuck, rng)


def _exact_assignment(problem: Problem, stuck: int, rng: np.random.Generator) -> Ints:
    slices, limit = problem.slices[stuck], problem.limits[stuck]
    where = f"client {stuck}: {slices} slices in at most {limit} of {problem.groups} groups"
    try:
        pieces = exact.solve(problem)
    except exact.Undecided:
        raise InputError(
            f"{where}: no way was found beside the other limits, nor ruled out; raise some"
        ) from None
    if pieces is None:
        raise InputError(f"{where}: there is no way beside the other clients' limits; raise some")
    return fill(problem, pieces, rng)
