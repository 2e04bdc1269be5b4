"""The description of a run, fixed before training: clients, groups, plan and modules, without any data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedsgt.errors import InputError
from fedsgt.files.formats import check_format
from fedsgt.grouping import Grouping
from fedsgt.plans import Plan
from fedsgt.words import first_problem

FORMAT: Literal[2] = 2
"""Format of new descriptions; runs of format 1 have no register."""
RESTORE = "restore this file from a backup; nothing was changed"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ClientEntry(_Strict):
    """A client as the server knows it."""

    name: str
    slices: list[str]
    """Fingerprint of each slice."""
    records: list[int]
    """Number of records in each slice."""
    source: str | None = None
    """Source of a client that rejoined; the records of all others are in the run's source."""
    # Left out of the file if there is none, so that descriptions of earlier versions keep their hash.
    node: str | None = Field(None, exclude_if=lambda key: key is None)
    """Public key of a client whose records are on its own machine; it signs its requests."""
    register_hash: str | None = Field(None, exclude_if=lambda code: code is None)
    """SHA-256 of the file with the ids that it registered; None if it keeps that on its own machine."""


class ModuleEntry(_Strict):
    """A module of the plan."""

    key: str
    parent: str | None
    """Key of the module below; None for a root."""
    groups: list[int]
    """Prefix: the groups that it depends on, in the order of training."""
    prefix: list[str]
    """Fingerprints of these groups."""


class Description(_Strict):
    """The file `run.json` of a run folder."""

    format: Literal[1, 2] = FORMAT
    id: str = ""
    """Name of the run in a ledger that may hold several."""
    as_of: int = 0
    """Position in the ledger up to which deletions are already in the fingerprints."""
    config_hash: str
    backbone: str
    profile: dict[str, str]
    labels: int
    label_names: list[str] | None
    # Left out of the file if it is not known, so that descriptions of earlier versions keep their hash.
    rows: int | None = Field(None, exclude_if=lambda rows: rows is None)
    """Number of rows of the source, if the ids of its records are row numbers."""
    clients: list[ClientEntry]
    grouping: str
    looks_at_data: bool
    """Whether the grouping looked at data content, which weakens exactness (definition 8)."""
    group_of: list[int]
    """Group of each slice, client by client."""
    plan: str
    sequences: list[list[int]]
    modules: list[ModuleEntry]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with changed values."""
        # Built anew: pydantic's own copy would keep cached properties that were computed from old values.
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**(values | dict(update or {})))

    @classmethod
    def read(cls, text: str, where: str) -> Self:
        """Parse a description; `where` names the file in an error."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            _refuse_newer(text, where)
            problem = first_problem(error, "the whole")
            raise InputError(f"{where}: not a run's description ({problem}); {RESTORE}") from None

    def to_text(self) -> str:
        """Return the text of the file."""
        return self.model_dump_json(indent=1) + "\n"

    @property
    def groups(self) -> int:
        """Number of groups."""
        return max(self.group_of) + 1

    @cached_property
    def keys(self) -> dict[tuple[int, ...], str]:
        """Key of each module, by its prefix."""
        return {tuple(entry.groups): entry.key for entry in self.modules}

    @cached_property
    def modules_of(self) -> dict[int, list[ModuleEntry]]:
        """Modules that depend on each group."""
        found: dict[int, list[ModuleEntry]] = {group: [] for group in range(self.groups)}
        for entry in self.modules:
            for group in entry.groups:
                found[group].append(entry)
        return found

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Index of each group (column) in each sequence (row); the sequence's length if it is not in it."""
        ends: NDArray[np.int64] = np.array([len(order) for order in self.sequences], dtype=np.int64)
        table = np.repeat(ends[:, None], self.groups + 1, axis=1)
        for row, order in zip(table, self.sequences, strict=True):
            row[order] = range(len(order))
        return table

    def depths_before(self, groups: Collection[int]) -> NDArray[np.int64]:
        """Return the number of groups of each sequence before the first of these."""
        # The last column stands for no group: it has every sequence's length.
        depths: NDArray[np.int64] = self._places[:, [*groups, self.groups]].min(axis=1)
        return depths

    def fingerprints_of(self, groups: Collection[int]) -> dict[str, str]:
        """Return the fingerprints of those of these groups that modules depend on, by number as text."""
        # Without a look at all modules, as every request waits for this: one long sequence has most groups.
        found: dict[str, str] = {}
        for entry in self.modules:
            if len(found) == len(groups):
                break
            pairs = zip(entry.groups, entry.prefix, strict=True)
            found.update({str(group): fingerprint for group, fingerprint in pairs if group in groups})
        return found

    @cached_property
    def group_fingerprints(self) -> dict[int, str]:
        """Fingerprint of each group that some module depends on."""
        return {
            group: fingerprint
            for entry in self.modules
            for group, fingerprint in zip(entry.groups, entry.prefix, strict=True)
        }

    @cached_property
    def groups_of(self) -> list[list[int]]:
        """Group of each slice, by client."""
        rest = iter(self.group_of)
        return [[next(rest) for _ in client.slices] for client in self.clients]

    def hash(self) -> str:
        """Return the SHA-256 of the file."""
        return hashlib.sha256(self.to_text().encode()).hexdigest()

    def grouping_made(self) -> Grouping:
        """Return the grouping as it was decided when the run was made."""
        client_of = np.repeat(np.arange(len(self.clients)), [len(client.slices) for client in self.clients])
        group_of = np.array(self.group_of, dtype=np.int64)
        return Grouping(client_of, group_of, self.groups, self.grouping, self.looks_at_data)

    def plan_made(self) -> Plan:
        """Return the plan as it was made."""
        return Plan.of(self.plan, self.groups, self.sequences)

    def chain(self, groups: tuple[int, ...]) -> tuple[str, ...]:
        """Return the keys of the modules along this prefix, root first."""
        return tuple(self.keys[groups[:depth]] for depth in range(1, len(groups) + 1))

    def client_differs(self, other: Description, number: int, hit: Collection[int] = ()) -> bool:
        """Whether a client is another one there, but for its slices in groups that a deletion has hit."""
        groups = self.groups_of[number]
        return _beyond(self.clients[number], groups, hit) != _beyond(other.clients[number], groups, hit)

    def difference(self, other: Description, hit: Collection[int] = ()) -> str | None:
        """Return in words the first difference to another description of this run; None if there is none.

        Slices in groups that a deletion has hit, and modules that depend on them, may differ.
        """
        # Clients come first: changed data is the likeliest reason, and would also explain all others.
        for number, ours in enumerate(self.clients[: len(other.clients)]):
            if self.client_differs(other, number, hit):
                return f"the data of client {ours.name} changed"
        if self.backbone != other.backbone:
            return "the backbone's weights changed"
        if self.profile != other.profile:
            return f"the execution profile changed ({_changed(self.profile, other.profile)})"
        # Two descriptions of one run may differ in these: the id is given later, and deletions move `as_of`.
        fixed = set(type(self).model_fields) - {"id", "as_of", "clients"}
        names = sorted(fixed - {"sequences", "modules"} if hit else fixed)
        unlike = [name for name in names if getattr(self, name) != getattr(other, name)]
        return f"{unlike[0]} changed" if unlike else None


def _refuse_newer(text: str, where: str) -> None:
    """Raise if the text is of a newer format; one that is no JSON at all is for the caller to refuse."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return
    check_format(values, FORMAT, where)


def _beyond(client: ClientEntry, groups: list[int], hit: Collection[int]) -> tuple[object, ...]:
    """Return the parts of a client that must not change: all but its slices in groups that were hit."""
    slices = zip(client.slices, client.records, groups, strict=False)
    kept = [(fingerprint, records) for fingerprint, records, group in slices if group not in hit]
    return client.name, client.source, client.node, len(client.slices), kept


def _changed(old: dict[str, Any], new: dict[str, Any]) -> str:
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return ", ".join(f"{name}: {old.get(name)} -> {new.get(name)}" for name in names)
