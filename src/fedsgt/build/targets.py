"""Build targets: the modules that a plan wants, each with its key and all that the key stands for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedsgt.config import Config
from fedsgt.config.sections import Training
from fedsgt.data import AnyClient, group_fingerprint
from fedsgt.files.encoding import canonical_json, frames
from fedsgt.grouping import Grouping
from fedsgt.plans import Plan
from fedsgt.stack import profile
from fedsgt.window import trained_groups

if TYPE_CHECKING:  # only a type: its module imports torch, which a key does not need
    from fedsgt.stack.model import OpenModel


@dataclass(frozen=True)
class Recipe:
    """Everything besides the data that a module's bytes depend on."""

    config: Mapping[str, Any]
    """Settings that shape the bytes."""
    backbone: str
    """Hash of the backbone's weights."""
    profile: Mapping[str, str]
    """Execution profile: how the machine computes."""

    @property
    def config_hash(self) -> str:
        """Hash of the settings."""
        return settings_hash(self.config)

    def key(self, prefix: Sequence[str]) -> str:
        """Return the key of the module on these groups, given by their fingerprints in order."""
        computed = canonical_json(self.profile).encode()
        header = frames("fedsgt.module.1", self.config_hash, self.backbone, computed)
        # The number of groups comes first, so that no longer prefix can read as this one.
        return hashlib.sha256(header + frames(len(prefix), *prefix)).hexdigest()


def make_recipe(run: Config, labels: int, model: OpenModel, known: Mapping[str, str] | None = None) -> Recipe:
    """Return the recipe of a run's modules; `known` is the execution profile that a known run was made with.

    A known run keeps the fields that its profile has: those of later versions would change its keys.
    """
    found = profile.describe(profile.pick_device(run.model.device))
    fields = found if known is None else {name: value for name, value in found.items() if name in known}
    return Recipe(settings_of(run, labels, model), model.backbone.hash, fields)


def settings_of(run: Config, labels: int, model: OpenModel) -> dict[str, Any]:
    """Return the settings that shape the bytes of a run's modules.

    Paths, plans and numbers of workers do not, so they may change and modules keep their keys.
    """
    used = {
        "lora": ("kind", "rank", "alpha", "freeze_a"),
        "ia3": ("kind",),
        "prefix": ("kind", "tokens", "hidden"),
    }[run.peft.kind]
    config: dict[str, Any] = {
        "inputs": model.inputs.describe(),
        "labels": labels,
        "peft": run.peft.model_dump(include=set(used)) | {"linears": list(model.stack.places.linears)},
        "training": run.training.model_dump(exclude=_unused(run.training)),
    }
    if run.privacy.epsilon is not None:
        config["privacy"] = run.privacy.model_dump()
    return config


def _unused(training: Training) -> set[str]:
    """Return the settings of later versions that are not used, so that older modules keep their keys."""
    defaults = {"start": "own", "window": None}
    return {name for name, default in defaults.items() if getattr(training, name) == default}


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Return the hash of settings, which is a part of every key."""
    return hashlib.sha256(canonical_json(settings).encode()).hexdigest()


@dataclass(frozen=True)
class Target:
    """One wanted module."""

    key: str
    groups: tuple[int, ...]
    """Prefix of the module: numbers of its groups, in order."""
    prefix: tuple[str, ...]
    """Fingerprints of these groups."""
    parents: tuple[str, ...]
    """Keys of the modules below, root first."""
    slices: Mapping[str, tuple[int, ...]]
    """Slices of each client in the groups that it trains on: all of these (definition 4), or the last."""

    @property
    def parent(self) -> str | None:
        """Key of the module right below; None for a root."""
        return self.parents[-1] if self.parents else None


def make_targets(
    recipe: Recipe, clients: Sequence[AnyClient], grouping: Grouping, plan: Plan
) -> list[Target]:
    """Return a target for each module of the plan, in its order: parents before children."""
    prints = group_fingerprints(clients, grouping)
    targets: list[Target] = []
    for module in plan.modules:
        # Modules of a plan come parents first, so the parent's target is made already.
        above = targets[module.parent] if module.parent >= 0 else None
        prefix = tuple(prints[group] for group in module.prefix)
        parents = () if above is None else (*above.parents, above.key)
        slices = slices_of(trained_groups(module.prefix, plan.window), clients, grouping)
        targets.append(Target(recipe.key(prefix), module.prefix, prefix, parents, slices))
    return targets


def group_fingerprints(clients: Sequence[AnyClient], grouping: Grouping) -> list[str]:
    """Return the fingerprint of each group's data, from those of its slices."""
    return [
        group_fingerprint(
            clients[client].fingerprints()[index] for client, index in grouping.slice_ids(group)
        )
        for group in range(grouping.groups)
    ]


def slices_of(
    groups: Sequence[int], clients: Sequence[AnyClient], grouping: Grouping
) -> dict[str, tuple[int, ...]]:
    """Return the slices that each client holds of any of these groups; other clients are left out."""
    held: dict[str, list[int]] = {}
    for group in groups:
        for client, index in grouping.slice_ids(group):
            held.setdefault(clients[client].name, []).append(index)
    # Sorted: neither the order of groups nor that of clients may show in a task.
    return {name: tuple(sorted(held[name])) for name in sorted(held)}
