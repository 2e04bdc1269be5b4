"""Make a grouping by the name of a method; the room's one entry point."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedsgt.errors import InputError
from fedsgt.grouping.affinity import affinity_groups
from fedsgt.grouping.bac import bac_groups
from fedsgt.grouping.centered import centered_groups
from fedsgt.grouping.problem import Hints, Ints, Labels, Limits, Problem, read_problem
from fedsgt.grouping.result import Grouping
from fedsgt.grouping.updates import update_groups
from fedsgt.grouping.within_limits.random_assignment import random_groups

Method = Callable[[Problem, Hints, np.random.Generator], Ints]

# The names are settings (`grouping.method`) and stand in run descriptions: never change one.
METHODS: dict[str, Method] = {
    "random": random_groups,
    "bac": bac_groups,
    "centered": centered_groups,
    "affinity": affinity_groups,
    "updates": update_groups,
}
# The choice of these depends on data content, which weakens exactness: manifests and certificates say so.
LOOK_AT_DATA = frozenset({"bac", "centered", "updates"})
# These put each client into one group, whatever the sizes: balance and limits do not apply.
WHOLE_CLIENTS = frozenset({"updates"})


def make(
    method: str,
    slices: ArrayLike,
    groups: int,
    *,
    limits: Limits = None,
    seed: int = 0,
    embeddings: ArrayLike | None = None,
    clusters: Labels | None = None,
    rates: ArrayLike | None = None,
    updates: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> Grouping:
    """Put client i's `slices[i]` slices into `groups` groups whose sizes differ by at most one slice.

    `limits` is the most groups a client may be in: one number, or one (or None) for each client.
    `embeddings` has a row for each slice, for `bac` and `centered`; `affinity` needs `clusters` or `rates`,
    one for each client. `updates`, a row for each client, is for the method of that name: it keeps clients
    whole, whatever size the groups then have. `names` are the clients' names, for error messages. A method
    ignores the input of the others, and gives the same groups for the same seed.
    """
    if method not in METHODS:
        raise InputError(f"grouping method: {method!r} is not one of {', '.join(METHODS)}")
    # A bool would pass as the seed 0 or 1.
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed: {seed!r} is not a whole number of at least 0")
    problem = read_problem(slices, groups, None if method in WHOLE_CLIENTS else limits, names)
    hints = Hints(embeddings, clusters, rates, updates)
    group_of = METHODS[method](problem, hints, np.random.default_rng(seed))
    return Grouping(problem.client_of, group_of, problem.groups, method, method in LOOK_AT_DATA)
