"""What a plan wants, as build targets: each module with its key and all that the key stands for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsgt.data import AnyClient, group_fingerprint
from fedsgt.files.encoding import canonical_json, frames
from fedsgt.grouping import Grouping
from fedsgt.plans import Plan


@dataclass(frozen=True)
class Recipe:
    """All but the data that a module's bytes depend on."""

    config: Mapping[str, Any]
    backbone: str
    profile: Mapping[str, str]

    @property
    def config_hash(self) -> str:
        return hashlib.sha256(canonical_json(self.config).encode()).hexdigest()

    def key(self, prefix: Sequence[str]) -> str:
        """A module's key: configuration, backbone, execution profile and the ordered groups' fingerprints."""
        profile = canonical_json(self.profile).encode()
        header = frames("fedsgt.module.1", self.config_hash, self.backbone, profile)
        return hashlib.sha256(header + frames(len(prefix), *prefix)).hexdigest()


@dataclass(frozen=True)
class Target:
    """One wanted module."""

    key: str
    groups: tuple[int, ...]
    """The prefix: group numbers of the plan, in order."""
    prefix: tuple[str, ...]
    """The fingerprints of these groups."""
    parents: tuple[str, ...]
    """Keys of the modules below, root first."""
    slices: Mapping[str, tuple[int, ...]]
    """Client to its slices in any of these groups (definition 4: phases train on cumulative data)."""

    @property
    def parent(self) -> str | None:
        return self.parents[-1] if self.parents else None


def make_targets(
    recipe: Recipe, clients: Sequence[AnyClient], grouping: Grouping, plan: Plan
) -> list[Target]:
    """One target for each module of the plan, in its order: parents before children."""
    prints = group_fingerprints(clients, grouping)
    targets: list[Target] = []
    for module in plan.modules:
        above = targets[module.parent] if module.parent >= 0 else None
        prefix = tuple(prints[group] for group in module.prefix)
        parents = () if above is None else (*above.parents, above.key)
        slices = slices_of(module.prefix, clients, grouping)
        targets.append(Target(recipe.key(prefix), module.prefix, prefix, parents, slices))
    return targets


def group_fingerprints(clients: Sequence[AnyClient], grouping: Grouping) -> list[str]:
    """What the server knows of each group's data."""
    return [
        group_fingerprint(
            clients[client].fingerprints()[index] for client, index in grouping.slice_ids(group)
        )
        for group in range(grouping.groups)
    ]


def slices_of(
    groups: Sequence[int], clients: Sequence[AnyClient], grouping: Grouping
) -> dict[str, tuple[int, ...]]:
    """Every client that holds a slice of any of the groups, with those slices."""
    held: dict[str, list[int]] = {}
    for group in groups:
        for client, index in grouping.slice_ids(group):
            held.setdefault(clients[client].name, []).append(index)
    return {name: tuple(sorted(held[name])) for name in sorted(held)}
