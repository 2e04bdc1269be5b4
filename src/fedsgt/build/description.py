"""What a run is, fixed before training: clients, groups, plan and modules, with no data in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from fedsgt.errors import InputError
from fedsgt.grouping import Grouping
from fedsgt.plans import Plan

if TYPE_CHECKING:  # showing a run must not need torch
    from fedsgt.build.prepare import Prepared


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ClientEntry(Part):
    """A client as the server knows it: fingerprints and numbers of records, slice by slice."""

    name: str
    slices: list[str]
    records: list[int]


class ModuleEntry(Part):
    """A wanted module."""

    key: str
    parent: str | None
    groups: list[int]
    prefix: list[str]


class Description(Part):
    """The file `run.json` of a run folder."""

    format: Literal[1] = 1
    config_hash: str
    backbone: str
    profile: dict[str, str]
    labels: int
    label_names: list[str] | None
    clients: list[ClientEntry]
    grouping: str
    looks_at_data: bool
    """Whether the grouping looked at data content, which weakens exactness (SPEC, definition 8)."""
    group_of: list[int]
    """The group of every slice, client by client."""
    plan: str
    sequences: list[list[int]]
    modules: list[ModuleEntry]

    @classmethod
    def of(cls, prepared: Prepared) -> Self:
        names = prepared.train.label_names
        return cls(
            config_hash=prepared.recipe.config_hash,
            backbone=prepared.recipe.backbone,
            profile=dict(prepared.recipe.profile),
            labels=prepared.train.label_count,
            label_names=None if names is None else list(names),
            clients=[
                ClientEntry(
                    name=client.name,
                    slices=list(client.fingerprints()),
                    records=list(client.slice_sizes()),
                )
                for client in prepared.clients
            ],
            grouping=prepared.grouping.method,
            looks_at_data=prepared.grouping.looks_at_data,
            group_of=prepared.grouping.group_of.tolist(),
            plan=prepared.plan.kind,
            sequences=[list(sequence) for sequence in prepared.plan.sequences],
            modules=[
                ModuleEntry(
                    key=target.key,
                    parent=target.parent,
                    groups=list(target.groups),
                    prefix=list(target.prefix),
                )
                for target in prepared.targets
            ],
        )

    @classmethod
    def read(cls, text: str, where: str) -> Self:
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InputError(f"{where}: not a run's description ({place}: {first['msg']})") from None

    def to_text(self) -> str:
        return self.model_dump_json(indent=1) + "\n"

    @property
    def groups(self) -> int:
        return max(self.group_of) + 1

    def grouping_made(self) -> Grouping:
        """The grouping as it was decided when the run was made."""
        client_of = np.repeat(np.arange(len(self.clients)), [len(client.slices) for client in self.clients])
        group_of = np.array(self.group_of, dtype=np.int64)
        return Grouping(client_of, group_of, self.groups, self.grouping, self.looks_at_data)

    def plan_made(self) -> Plan:
        return Plan.of(self.plan, self.groups, self.sequences)

    def chain(self, groups: tuple[int, ...]) -> tuple[str, ...]:
        """Keys of the modules along this prefix, root first."""
        keys = {tuple(entry.groups): entry.key for entry in self.modules}
        return tuple(keys[groups[:depth]] for depth in range(1, len(groups) + 1))

    def difference(self, other: Description) -> str | None:
        """What is not the same in another description of this run, in words; none if they are equal."""
        if self == other:
            return None
        for ours, theirs in zip(self.clients, other.clients, strict=False):
            if ours != theirs:
                return f"the data of client {ours.name} changed"
        if self.backbone != other.backbone:
            return "the backbone's weights changed"
        if self.profile != other.profile:
            return f"the execution profile changed ({_changed(self.profile, other.profile)})"
        fields = type(self).model_fields
        return f"{next(name for name in fields if getattr(self, name) != getattr(other, name))} changed"


def _changed(old: dict[str, Any], new: dict[str, Any]) -> str:
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return ", ".join(f"{name}: {old.get(name)} -> {new.get(name)}" for name in names)
