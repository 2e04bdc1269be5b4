"""Prepare a build from a run's configuration: clients' records, groups, plan, model and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from fedsgt import plans
from fedsgt.build.group_slices import group_slices
from fedsgt.build.targets import Recipe, Target, make_recipe, make_targets
from fedsgt.config import Config
from fedsgt.data import AnyClient, Record, RemoteClient, Slice
from fedsgt.engine.worker import Setup
from fedsgt.errors import InputError
from fedsgt.grouping import Grouping
from fedsgt.plans import Plan
from fedsgt.runs.description import FORMAT, ClientEntry, Description, ModuleEntry
from fedsgt.runs.records import ClientData, load_clients, load_test
from fedsgt.runs.register import Registers
from fedsgt.runs.state import DeletedData
from fedsgt.stack.model import OpenModel, open_model
from fedsgt.store import Modules
from fedsgt.window import records_used


@dataclass(frozen=True)
class Prepared:
    """All that a build of a run needs."""

    run: Config
    data: ClientData = field(repr=False)
    """Records of the clients, not in `repr`, so that no log shows them."""
    test: tuple[Record, ...] = field(repr=False)
    """Records to predict."""
    grouping: Grouping
    plan: Plan
    model: OpenModel = field(repr=False)
    recipe: Recipe
    targets: tuple[Target, ...] = field(repr=False)
    """Modules of the plan, parents before children."""
    keeps_activations: bool = True
    """Whether outputs of the lower layers may be kept on disk: only of slices that the description knows."""

    @property
    def clients(self) -> tuple[AnyClient, ...]:
        """Local and remote clients."""
        return self.data.clients

    def setup(self, modules: Modules, cache: Path | None) -> Setup:
        """Return the setup that worker processes are started with."""
        # The name "test" lets workers keep the prepared test records in memory between predictions.
        return Setup.for_clients(
            self.run, self.data.labels, self.data.local, Slice("test", self.test), modules.get, cache
        )

    def check_contents(self, progress: Callable[[float], None] = lambda share: None) -> None:
        """Check that every group has a record, every image decodes and every text fits."""
        for target in self.targets:
            if not self.records(target):  # parents come first, so the group is the last one
                raise InputError(
                    f"group {target.groups[-1]} has no record; lower grouping.groups or grouping.slices"
                )
        records = [*chain.from_iterable(client.records for client in self.data.local), *self.test]
        for done, record in enumerate(records, start=1):
            self.model.inputs.item(record.id, record.content)  # raises and names the record
            if done * 100 // len(records) > (done - 1) * 100 // len(records):  # once for each percent
                progress(done / len(records))

    def records(self, target: Target) -> int:
        """Return the number of records that a round of this module may train on."""
        return self.different_records([target])

    def work(self, targets: Iterable[Target]) -> int:
        """Return the number of records that an epoch of a round of each of these modules trains on."""
        sizes = {client.name: client.slice_sizes() for client in self.clients}
        held = [
            (sum(sizes[name][index] for index in slices), len(target.groups))
            for target in targets
            for name, slices in target.slices.items()
        ]
        window = self.run.training.window
        return sum(records_used(records, depth, window) for records, depth in held if records)

    def different_records(self, targets: Iterable[Target]) -> int:
        """Return the number of records that some of these modules train on, each counted once."""
        sizes = {client.name: client.slice_sizes() for client in self.clients}
        slices = {(name, i) for target in targets for name, held in target.slices.items() for i in held}
        return sum(sizes[name][index] for name, index in slices)


def check_records(run: Config, labels: int, records: Iterable[Record]) -> None:
    """Check that a model can learn from every record: each image decodes, and each text fits."""
    inputs = open_model(run, labels).inputs
    for record in records:
        inputs.item(record.id, record.content)  # raises and names the record


def prepare(
    run: Config,
    known: Description | None = None,
    erased: Mapping[int, DeletedData] | None = None,
    registers: Registers | None = None,
) -> Prepared:
    """Prepare a new run, or a known one without its erased records, in the groups decided then."""
    return prepare_clients(run, load_clients(run, known, erased, registers=registers), known)


def prepare_clients(run: Config, data: ClientData, known: Description | None = None) -> Prepared:
    """Prepare a run of these clients, in the groups of the known run if one is given."""
    test = load_test(run, data.labels).records if data.given_test is None else data.given_test
    model = open_model(run, data.labels)
    if known is None:
        run = _settled(run, data)
        prepared = _assemble(run, data, test, model, group_slices(run, data, model), _plan(run), None)
    else:
        plan = _plan_of_filled_groups(known, data.clients)
        prepared = _assemble(run, data, test, model, known.grouping_made(), plan, known)
    # Checked before any training: an update from another backbone or profile could never be verified.
    for client in data.remote:
        check_reproducible(client, prepared.recipe)
    return prepared


def _settled(run: Config, data: ClientData) -> Config:
    """Return the settings of a new run with what its data told, so that it is not asked again later."""
    run = run.with_clients(len(data.clients))
    if run.privacy.epsilon is not None:  # statistics have no noise
        run = run.model_copy(update={"heads": run.heads.model_copy(update={"solve": False})})
    if data.split_off:
        return run
    # The source has a test part. If that is lost one day, no records that were trained on take its place.
    return run.model_copy(update={"data": run.data.model_copy(update={"test_share": 0.0})})


def prepare_again(
    run: Config, data: ClientData, known: Description, plan: Plan, test: tuple[Record, ...] = ()
) -> Prepared:
    """Prepare a known run in its own groups, but with another plan and other records to predict.

    Verification and the measurement of forgetting train with it outside of the run's folder.
    """
    return _assemble(run, data, test, open_model(run, data.labels), known.grouping_made(), plan, known)


def _assemble(
    run: Config,
    data: ClientData,
    test: tuple[Record, ...],
    model: OpenModel,
    grouped: Grouping,
    plan: Plan,
    known: Description | None,
) -> Prepared:
    recipe = make_recipe(run, data.labels, model, None if known is None else known.profile)
    plan = plan.with_window(run.training.window)
    targets = make_targets(recipe, data.clients, grouped, plan)
    return Prepared(run, data, test, grouped, plan, model, recipe, tuple(targets))


def describe(prepared: Prepared, known: Description | None = None, as_of: int = 0) -> Description:
    """Describe a prepared run: a new one, or a known one with the deletions up to `as_of`."""
    names = prepared.data.label_names
    # Only the known run can tell the source of a client that came back, and what each client registered.
    kept = {client.name: client for client in known.clients} if known else {}
    return Description(
        format=known.format if known else FORMAT,
        id=known.id if known else "",
        as_of=as_of,
        config_hash=prepared.recipe.config_hash,
        backbone=prepared.recipe.backbone,
        profile=dict(prepared.recipe.profile),
        labels=prepared.data.labels,
        label_names=None if names is None else list(names),
        rows=known.rows if known else prepared.data.rows,
        clients=[
            ClientEntry(
                name=client.name,
                slices=list(client.fingerprints()),
                records=list(client.slice_sizes()),
                source=kept[client.name].source if client.name in kept else None,
                node=client.node,
                register_hash=kept[client.name].register_hash if client.name in kept else None,
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


def check_reproducible(client: RemoteClient, recipe: Recipe) -> None:
    """Check that a client's machine has the server's backbone and execution profile.

    Otherwise its updates could not be reproduced elsewhere.
    """
    if client.backbone != recipe.backbone:
        raise InputError(
            f"client {client.name}: its backbone is another one than the server's ({client.backbone[:12]} "
            f"against {recipe.backbone[:12]}); see model.backbone in both their settings"
        )
    for name, value in recipe.profile.items():
        if client.profile.get(name, value) != value:
            raise InputError(
                f"client {client.name}: it computes in another way than the server: {name} is "
                f"{client.profile[name]} against {value}"
            )
    # An older version knows fewer fields; it can take part in runs that were made with those.
    missing = [name for name in recipe.profile if name not in client.profile]
    if missing:
        raise InputError(
            f"client {client.name}: its fedsgt does not tell {', '.join(missing)} of its execution profile; "
            "update fedsgt there"
        )


def _plan(run: Config) -> Plan:
    """Return the plan that the run's settings ask for."""
    settings = run.plan
    return plans.make(
        settings.kind,
        run.grouping.groups,
        budget=settings.budget,
        passes=settings.passes,
        seed=settings.seed,
        shards=settings.shards,
        window=run.training.window,
    )


def _plan_of_filled_groups(known: Description, clients: Sequence[AnyClient]) -> Plan:
    """Return the known plan without the groups that lost their last record."""
    held = _group_sizes(known, [client.records for client in known.clients])
    left = _group_sizes(known, [client.slice_sizes() for client in clients])
    # Groups that were emptied by earlier deletions are not in the known plan any more.
    emptied = {
        group for group, (before, now) in enumerate(zip(held, left, strict=True)) if before and not now
    }
    orders = (tuple(group for group in order if group not in emptied) for order in known.sequences)
    # Sequences may have become equal or empty; each is trained once.
    sequences = list(dict.fromkeys(order for order in orders if order))
    if not sequences and known.sequences:
        raise InputError("no record is left in any group; there is nothing to train on")
    return Plan.of(known.plan, known.groups, sequences)


def _group_sizes(known: Description, sizes: Sequence[Sequence[int]]) -> list[int]:
    """Return the number of records of each group, given those of each client's slices."""
    found = [0] * known.groups
    for client, groups in zip(sizes, known.groups_of, strict=True):
        for size, group in zip(client, groups, strict=True):
            found[group] += size
    return found
