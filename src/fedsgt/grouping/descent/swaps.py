"""An assignment of slices to groups, and what the exchange of two slices does to Eq. 1 and to limits."""

from typing import TypeAlias

import numpy as np

from fedsgt.grouping.problem import Floats, Ints, Problem
from fedsgt.grouping.result import group_sums

# The numbers of some slices, or a Python slice over all of them.
Some: TypeAlias = Ints | slice

ALL = slice(None)
# Slices up to which the products and distances of all pairs are kept, at 72 MB each.
MOST_IN_MATRIX = 3000
# Pairs looked at in one step, and partners sampled for a slice when there are more slices than this.
PAIRS_PER_STEP = 1 << 16
PARTNERS = 1 << 12


class Swaps:
    """An assignment that changes by exchanges, with the terms of Eq. 1 kept up to date.

    With centred vectors e, group sums T and sizes n, Eq. 1 is the sum of |T_g|^2 / n_g^2. Exchanging a of g
    with b of h adds d = e_b - e_a to T_g and takes it from T_h, which changes Eq. 1 by
    2 d.(T_g/n_g^2 - T_h/n_h^2) + |d|^2 (1/n_g^2 + 1/n_h^2). `sign=-1` seeks groups that differ from the
    whole. With `widths` an item stands for so many slices, and only items of equal width are exchanged.
    """

    def __init__(
        self,
        problem: Problem,
        vectors: Floats,
        group_of: Ints,
        sign: float = 1.0,
        widths: Ints | None = None,
    ) -> None:
        self.problem = problem
        self.sign = sign
        self._widths = widths
        self._vectors = vectors - vectors.mean(axis=0)
        self._largest = float((vectors**2).sum(axis=1).max())
        self._gram = self._vectors @ self._vectors.T if len(vectors) <= MOST_IN_MATRIX else None
        self._apart = None if self._gram is None else _distances(self._gram)
        self.load(group_of)

    def load(self, group_of: Ints) -> None:
        """Replace the assignment by another one."""
        groups = self.problem.groups
        self.group_of = group_of.copy()
        self._weight = self.sign / np.bincount(group_of, self._widths, groups) ** 2.0
        self._weights = self._weight[:, None] + self._weight
        # An exchange inside one group changes nothing.
        np.fill_diagonal(self._weights, 0.0)
        # _pull[a, g] is e_a.T_g / n_g^2.
        self._pull = self._vectors @ (group_sums(group_of, self._vectors, groups) * self._weight[:, None]).T
        if self.problem.binding:
            self._load_limits()

    def value(self) -> float:
        """Return the value of Eq. 1 under the assignment now, times the sign."""
        return float(self._pull[np.arange(len(self.group_of)), self.group_of].sum())

    def pairs_per_step(self) -> int:
        """Return the number of pairs to look at in one step: fewer if distances have to be computed."""
        length = 1 if self._gram is not None else self._vectors.shape[1]
        return PAIRS_PER_STEP * 10 // (9 + length)

    def rounding(self) -> float:
        """Return the change in Eq. 1 below which a gain may be rounding only."""
        return 1e-12 * self._largest * float(np.abs(self._weight).max())

    def allowed_changes(self, rows: Some, columns: Some) -> Floats:
        """Return the same as `changes`, infinite where limits or widths forbid the exchange."""
        changes = self.changes(rows, columns)
        if self.problem.binding:
            changes[self.over_after(rows, columns) > 0] = np.inf
        if self._widths is not None:
            changes[self._widths[rows][:, None] != self._widths[columns]] = np.inf
        return changes

    def changes(self, rows: Some, columns: Some) -> Floats:
        """Return the change in Eq. 1 for each exchange of a row's slice with a column's."""
        mine, theirs = self.group_of[rows], self.group_of[columns]
        left, right = self._pull[rows], self._pull[columns]
        linear: Floats = right[:, mine].T + left[:, theirs]
        linear -= left[np.arange(len(mine)), mine][:, None]
        linear -= right[np.arange(len(theirs)), theirs]
        linear *= 2.0
        linear += self._distance(rows, columns) * self._weights[mine][:, theirs]
        return linear

    def _distance(self, rows: Some, columns: Some) -> Floats:
        """Return the squared distances of the rows' slices from the columns'."""
        if self._apart is not None:
            return self._apart[rows][:, columns]
        # No matrix product: the threads of a linear algebra library cost more than they save on small lots.
        from scipy.spatial.distance import cdist  # half a second to import, seldom needed

        return cdist(self._vectors[rows], self._vectors[columns], "sqeuclidean")

    def over_after(self, rows: Some, columns: Some) -> Ints:
        """Return by how many groups the row's and the column's client would be over their limits together."""
        mine, theirs = self.group_of[rows], self.group_of[columns]
        over: Ints = self._over[rows][:, theirs] + self._over[columns][:, mine].T
        return over

    def over(self) -> Ints:
        """Return by how many groups each client is over its limit now."""
        over: Ints = np.maximum((self._counts > 0).sum(axis=1) - self.problem.limits, 0)
        return over

    def swap(self, first: int, second: int) -> None:
        """Exchange the two slices, and update every term that this changes."""
        mine, theirs = int(self.group_of[first]), int(self.group_of[second])
        step = self._step(first, second)
        self._pull[:, mine] += self._weight[mine] * step
        self._pull[:, theirs] -= self._weight[theirs] * step
        self.group_of[first], self.group_of[second] = theirs, mine
        if self.problem.binding:
            self._recount(first, mine, theirs)
            self._recount(second, theirs, mine)

    def _step(self, first: int, second: int) -> Floats:
        """Return the product of every slice's vector with what the sum of `first`'s group gains."""
        if self._gram is not None:
            step: Floats = self._gram[second] - self._gram[first]
        else:
            step = self._vectors @ (self._vectors[second] - self._vectors[first])
        return step

    def _load_limits(self) -> None:
        """Count each client's slices in each group, and how far every slice's move would be over a limit."""
        clients, groups = len(self.problem.slices), self.problem.groups
        cells = np.bincount(self.problem.client_of * groups + self.group_of, minlength=clients * groups)
        self._counts = cells.reshape(clients, groups)
        self._starts = np.cumsum(self.problem.slices) - self.problem.slices
        # _over[a, g]: by how many groups a's client would be over its limit with a in g.
        self._over = np.zeros((self.problem.total, groups), dtype=np.int64)
        for client in np.flatnonzero(self.problem.restricted):
            self._update_over(client)

    def _recount(self, one: int, origin: int, to: int) -> None:
        """Update the counts of the slice's client after the slice has moved."""
        client = self.problem.client_of[one]
        self._counts[client, origin] -= 1
        self._counts[client, to] += 1
        self._update_over(client)

    def _update_over(self, client: np.int64) -> None:
        """Work out `_over` for the client's slices; unrestricted clients are never over, so skip them."""
        if not self.problem.restricted[client]:
            return
        own = slice(self._starts[client], self._starts[client] + self.problem.slices[client])
        counts, mine = self._counts[client], self.group_of[own]
        # A move enters a new group where the count is 0, and leaves one where the slice was the last.
        spread = (counts > 0).sum() + (counts == 0) - (counts[mine] == 1)[:, None].astype(np.int64)
        spread[np.arange(len(mine)), mine] = (counts > 0).sum()
        self._over[own] = np.maximum(spread - self.problem.limits[client], 0)


def _distances(gram: Floats) -> Floats:
    """Return all squared distances: |a|^2 + |b|^2 - 2 a.b."""
    squares = gram.diagonal()
    apart: Floats = squares[:, None] + squares - 2.0 * gram
    return apart
