"""Runs made without training, on paper: any sequences, any number of records, modules of one number."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import numpy as np

from fedsgt.config import load
from fedsgt.ledger.kinds import Kind
from fedsgt.ledger.ledger import Entry
from fedsgt.plans import NO_MODULES, Plan
from fedsgt.runs.description import ClientEntry, Description, ModuleEntry
from fedsgt.runs.folder import RunFolder, create_run
from fedsgt.store.manifest import Origin
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import Receipt, unlearn

Prefix = tuple[int, ...]


def code(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def describe(
    sequences: Iterable[Sequence[int]],
    records: Sequence[int],
    *,
    names: Sequence[str] = (),
    fresh: Collection[int] = (),
    **changes: object,
) -> Description:
    """A client for each group, with two slices of so many records; `fresh` groups lost the first of them."""
    orders = tuple(sequences)
    plan = Plan.of("rotations" if orders else NO_MODULES, len(records), orders)
    prints = [code("group", group, group in fresh) for group in range(len(records))]

    def key(prefix: Prefix) -> str:
        return code(*(prints[group] for group in prefix))

    entries = [
        ModuleEntry(
            key=key(module.prefix),
            parent=key(module.prefix[:-1]) if module.parent >= 0 else None,
            groups=list(module.prefix),
            prefix=[prints[group] for group in module.prefix],
        )
        for module in plan.modules
    ]
    clients = [
        ClientEntry(
            name=names[group] if names else f"client-{group}",
            slices=[code("slice", group, index, group in fresh) for index in range(2)],
            records=[0 if group in fresh else count, count],
        )
        for group, count in enumerate(records)
    ]
    made = Description(
        config_hash=code("config"),
        backbone=code("backbone"),
        profile={"threads": "1"},
        labels=2,
        label_names=None,
        clients=clients,
        grouping="random",
        looks_at_data=False,
        group_of=[group for group in range(len(records)) for _ in range(2)],
        plan=plan.kind,
        sequences=[list(sequence) for sequence in plan.sequences],
        modules=entries,
    )
    return made.model_copy(update=changes)


def paper_run(path: Path, description: Description, *overrides: str) -> RunFolder:
    """Make the folder of a run, with nothing trained."""
    groups = len(description.clients)
    config = load(
        None,
        [
            f"data.clients={groups}",
            f"grouping.groups={groups}",
            "grouping.slices=2",
            "heads.solve=false",  # runs on paper have no statistics, unless a test writes some
            *overrides,
        ],
    )
    return create_run(path, config, description)


def fill(folder: RunFolder, wanted: Callable[[Prefix], bool] = lambda prefix: True) -> None:
    """`Train` the wanted modules that are live and not there, and say so in the ledger, as training does."""
    live, present = folder.live(), folder.present()
    for entry in live.modules():
        if entry.key not in present and wanted(tuple(entry.groups)):
            folder.modules.put(_origin(live.description, entry), {"weight": np.zeros(1, dtype=np.float32)})
    with folder.ledger.writing() as writer:
        writer.append(Kind.BUILT, {"modules": len(folder.present())})


def _origin(description: Description, entry: ModuleEntry) -> Origin:
    return Origin(
        key=entry.key,
        parent=entry.parent,
        groups=entry.groups,
        prefix=entry.prefix,
        config_hash=description.config_hash,
        config={},
        backbone=description.backbone,
        rounds=0,
        participants=[],
        seed=0,
        versions={},
        profile=dict(description.profile),
        machine={},
        metrics={},
    )


def delete(folder: RunFolder, *groups: int, index: int = 0) -> Receipt:
    """Delete one slice of each of these groups in one request."""
    clients = folder.live().description.clients
    return unlearn(folder, [Deletion(clients[group].name, slices=(index,)) for group in groups])


def rebuild(folder: RunFolder) -> None:
    """A training after deletions of first slices: the groups have new fingerprints, all is there again."""
    live = folder.live()
    old = live.description
    lost = [group for group, client in enumerate(old.clients) if not client.records[0]]
    made = describe(
        old.sequences,
        [client.records[1] for client in old.clients],
        names=[client.name for client in old.clients],
        fresh={*lost, *live.dead},
        label_names=old.label_names,
    )
    folder.describe_anew(made.model_copy(update={"id": old.id, "as_of": live.position}))
    fill(folder)


def request_entry(position: int, groups: Sequence[int], *parts: dict[str, object]) -> Entry:
    """Return the ledger's entry of a request that hit these groups."""
    body = {"parts": list(parts), "groups": list(groups), "modules_died": 0}
    return Entry(position, Kind.REQUEST, "", body, "", "")
