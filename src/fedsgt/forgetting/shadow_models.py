"""Systems that are attacked or help to attack, trained as any other in a work folder that is then removed.

One is the system that served before the deletions. The others are shadow models: each has learnt half of the
attacked records, so that it shows how records look that a model has and has not learnt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsgt.build.build import Build
from fedsgt.build.prepare import Prepared, prepare_again
from fedsgt.build.targets import Recipe, Target
from fedsgt.data import Client, Record, Slice, group_fingerprint, slice_fingerprint
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.tally import share_of
from fedsgt.errors import InputError
from fedsgt.files.encoding import frames, seed_of
from fedsgt.forgetting.attacked_records import AttackedRecords
from fedsgt.forgetting.membership import Flags, halves
from fedsgt.plans import Choice, Plan, choose
from fedsgt.runs.artefacts import CACHE
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.runs.work import work_folder
from fedsgt.serving.answer import answer
from fedsgt.store import Folder, Modules, StoreError

Progress: TypeAlias = Callable[[float], None]
Probabilities: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class EarlierSystem:
    """The system before all deletions: the run's plan with the deleted records, as far as served."""

    prepared: Prepared
    strategy: str
    chosen: list[Choice]
    """Sequences that the strategy takes when nothing is deleted."""
    targets: list[Target]
    """Modules along the chosen sequences."""

    @classmethod
    def of(
        cls, folder: RunFolder, known: Description, attacked: AttackedRecords, strategy: str
    ) -> EarlierSystem:
        """Prepare the run as it was, with the attacked records as those to predict."""
        whole = attacked.whole
        plan = _plan(known, whole.local)
        prepared = prepare_again(folder.config, whole, known, plan, attacked.records)
        chosen = choose(strategy, prepared.plan.sequences)
        needed = {prefix[:depth] for _, prefix, _ in chosen for depth in range(1, len(prefix) + 1)}
        wanted = [target for target in prepared.targets if target.groups in needed]
        return cls(prepared, strategy, chosen, wanted)

    def predict(self, engine: InProcess) -> Probabilities:
        """Return the attacked records' class probabilities."""
        keys = {target.groups: (*target.parents, target.key) for target in self.targets}
        weighted = [(weight, keys[prefix]) for _, prefix, weight in self.chosen]
        return answer(self.strategy, weighted, engine.predict, engine.predict_merged)


@dataclass(frozen=True)
class ShadowModels:
    """Models of a single module each, trained on all retained records and half of the attacked ones."""

    rounds: int
    inside: Flags = field(repr=False)
    """Whether a model (row) learns an attacked record (column): the deleted ones, and as many unseen."""
    slices: Mapping[str, Sequence[Slice]] = field(repr=False)
    """By client: its retained records, then its share of each model's half."""
    targets: list[Target] = field(repr=False)

    @classmethod
    def of(
        cls, before: EarlierSystem, attacked: AttackedRecords, count: int, rounds: int, seed: int
    ) -> ShadowModels:
        """Draw the halves of `count` models by the seed; nothing is trained yet."""
        inside = halves(2 * attacked.count, count, seed_of("halves", seed))
        clients = attacked.left.local
        slices = {client.name: _shadow_slices(client, attacked, inside) for client in clients}
        starts = {client.name: client.slices for client in clients}
        recipe = before.prepared.recipe
        targets = [_shadow(recipe, slices, starts, number, seed) for number in range(count)]
        return cls(rounds, inside, slices, targets)

    @property
    def records(self) -> int:
        """Number of records that all models together see in a round."""
        held = self.slices.values()
        return sum(len(self.targets) * len(first) + sum(map(len, rest)) for first, *rest in held)

    def predict(self, engine: InProcess) -> Probabilities:
        """Return the attacked records' class probabilities under each model (first axis)."""
        return engine.predict([(target.key,) for target in self.targets])


def experiment(
    folder: RunFolder, live: Live, before: EarlierSystem, shadows: ShadowModels, progress: Progress
) -> tuple[Probabilities, Probabilities]:
    """Train both and return their class probabilities of the attacked records.

    Modules and activations lie in a work folder of the run, which is removed at the end: they depend on
    deleted records.
    """
    prepared, training = before.prepared, before.prepared.run.training
    deletions = _StopAtRequest(folder, live)
    with work_folder(folder.path, "measurement of forgetting", live.position) as path, deletions.explained():
        modules = Modules(Folder(path))
        # Most modules of the earlier system may still be live; only the destroyed ones are trained again.
        _reuse(folder, live, before.targets, modules)
        missing = [target for target in before.targets if modules.state(target.key) != "present"]
        work = prepared.work(missing) * training.rounds + shadows.records * shadows.rounds
        setup = prepared.setup(modules, path / CACHE)
        # Shadow models use the same engine: their slices come after the clients' own.
        held = {name: [*parts, *shadows.slices[name]] for name, parts in setup.slices.items()}
        with InProcess(replace(setup, slices=held), prepared.model.stack, share_of(work, progress)) as engine:
            for targets, rounds in ((missing, training.rounds), (shadows.targets, shadows.rounds)):
                build = Build(prepared.recipe, modules, engine, rounds, training.seed)
                build.deletions = deletions
                build.run(targets)
            return before.predict(engine), shadows.predict(engine)


def _plan(known: Description, clients: Sequence[Client]) -> Plan:
    """Return the run's plan, with groups that have left it since at the end of each sequence.

    A group leaves the plan when its last record is deleted; before the deletions it was there.
    """
    held = {
        group
        for client, groups in zip(clients, known.groups_of, strict=True)
        for size, group in zip(client.slice_sizes(), groups, strict=True)
        if size
    }
    # Nothing says any more at which place a lost group stood in the sequences, so it is put at the end.
    lost = sorted(held.difference(*known.sequences))
    orders = (tuple(group for group in (*order, *lost) if group in held) for order in known.sequences)
    return Plan.of(known.plan, known.groups, list(dict.fromkeys(order for order in orders if order)))


def _shadow_slices(client: Client, attacked: AttackedRecords, inside: Flags) -> list[Slice]:
    """Return the client's retained records and its shares of the halves, numbered after its own slices."""
    learnable = attacked.records[: inside.shape[1]]
    mine = np.array([record.owner == client.name for record in learnable], dtype=np.bool_)
    halves = [tuple(learnable[row] for row in np.flatnonzero(flags & mine)) for flags in inside]
    return [
        _shadow_slice(client, client.slices + index, records)
        for index, records in enumerate((client.records, *halves))
    ]


def _shadow_slice(client: Client, index: int, records: tuple[Record, ...]) -> Slice:
    return Slice(slice_fingerprint(client.salt, client.name, index, records), records)


def _shadow(
    recipe: Recipe,
    slices: Mapping[str, Sequence[Slice]],
    starts: Mapping[str, int],
    number: int,
    seed: int,
) -> Target:
    """Describe one shadow model.

    All its random numbers come from its key, so this holds its number and the seed besides what it learns:
    models that learn the same half are still independent.
    """
    data = group_fingerprint(parts[at].fingerprint for parts in slices.values() for at in (0, 1 + number))
    fingerprint = hashlib.sha256(frames("fedsgt.shadow.1", seed, number, data)).hexdigest()
    learnt = {name: (start, start + 1 + number) for name, start in starts.items()}
    return Target(recipe.key([fingerprint]), (number,), (fingerprint,), (), learnt)


def _reuse(folder: RunFolder, live: Live, targets: Sequence[Target], modules: Modules) -> None:
    """Copy the live modules among the targets, which have the same bytes because they have the same key."""
    known = {entry.key for entry in live.modules()} & folder.present()
    for target in targets:
        if target.key in known:
            try:
                modules.put(folder.modules.manifest(target.key), folder.modules.get(target.key))
            except StoreError:  # a damaged module is trained again
                continue


class _StopAtRequest:
    """Ends the build with an error at the first deletion: a deleted record must not be used any further."""

    def __init__(self, folder: RunFolder, live: Live) -> None:
        self.folder, self.live = folder, live

    def dead(self) -> frozenset[int]:
        if self.folder.live().last_request != self.live.last_request:
            raise InputError(f"{self.folder.path}: a deletion came in meanwhile; start again")
        return frozenset()

    @contextmanager
    def publishing(self) -> Iterator[frozenset[int]]:
        # No lock: a deletion that comes meanwhile destroys the folder that these modules lie in.
        yield self.dead()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise if a deletion came before; explain errors that come of a later one."""
        self.dead()
        try:
            yield
        except Exception:
            self.dead()
            raise
