"""Groups, slices and limits that suit the deletions to expect: of records, of whole clients, or of both.

Records: the paper's grouping, which spreads each client over many groups, so that all groups are alike.
Clients: each client in one group or two, whichever withstands more, because a client that leaves hits every
group that it is in. Both: as many groups as for records, ten if there are clients for them, each client in
two at most. A group has at least two clients wherever there are enough of them: with one, its first module
would be trained on that client's data alone.
docs/planning.md has the figures of the settings compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fedsgt import grouping
from fedsgt.plans import Estimate, rotations
from fedsgt.plans.scoring.whole_clients import clients_withstood, left_whole_words

MOST_GROUPS, MOST_SLICES = 10, 5
PASSES = 10
"""Limit on the passes of the tree plan: as many as FedAvg takes in ten rounds."""
COMPANY = 2  # clients that a group should have at least
SEEDS = 100  # groupings tried for one in which every group has company


class Purpose(StrEnum):
    """The deletions that a setting is for."""

    RECORDS = "records"
    CLIENTS = "clients"
    BOTH = "both"


@dataclass(frozen=True)
class Setting:
    """Random groups and a tree plan within `PASSES`, in which every group is some root."""

    purpose: Purpose
    clients: int
    groups: int
    slices: int
    limits: int | None
    """Largest number of groups that a client may be in; None for no limit."""
    seed: int = 0
    """Seed of the grouping."""

    def counts(self) -> NDArray[np.int64]:
        """Return the slices of each client (row) in each group (column)."""
        slices = [self.slices] * self.clients
        return grouping.make("random", slices, self.groups, limits=self.limits, seed=self.seed).counts()

    @property
    def company(self) -> int:
        """Fewest clients in a group."""
        return fewest_clients(self.counts())

    @property
    def clients_withstood(self) -> Estimate:
        """Expected clients that leave whole until nothing is live; the last is counted."""
        return clients_withstood(range(self.groups), self.counts())

    def withstands(self) -> str:
        """Say after how many deletions of each kind no module is live."""
        return (
            f"no module is live after about {rotations(self.groups).deletion_rate():.1f} deletions of "
            f"records or slices, or after {left_whole_words(self.clients_withstood, self.clients)}"
        )


def fewest_clients(counts: NDArray[np.int64]) -> int:
    """Return the number of clients in the group with fewest."""
    return int((counts > 0).sum(axis=0).min())


def setting_for(purpose: Purpose, clients: int, most_slices: int = MOST_SLICES) -> Setting:
    """Return the setting for these deletions, of so many clients that have at most so many slices each."""
    groups = max(2, min(MOST_GROUPS, clients // COMPANY))
    whole = Setting(purpose, clients, groups, 1, 1)
    if most_slices == 1:
        return whole
    if purpose is Purpose.RECORDS:
        return _in_company(purpose, clients, min(MOST_SLICES, most_slices), None)
    spread = _in_company(purpose, clients, 2, 2)
    if purpose is Purpose.BOTH and groups < MOST_GROUPS:
        return spread
    # With fewer than about 14 clients, more groups outweigh that a client who leaves hits two of them.
    return max(spread, whole, key=lambda one: (one.company >= COMPANY, one.clients_withstood))


def _in_company(purpose: Purpose, clients: int, slices: int, limits: int | None) -> Setting:
    """Return the setting with the first seed with which no group has the slices of one client only."""
    groups = max(2, min(MOST_GROUPS, clients * slices // COMPANY))
    tried = (Setting(purpose, clients, groups, slices, limits, seed) for seed in range(SEEDS))
    first = Setting(purpose, clients, groups, slices, limits)
    return next((one for one in tried if one.company >= COMPANY), first)
