"""Train a run: create or continue its folder, and build the modules that its plan wants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from fedsgt.build.client_access import LOCAL, ClientAccess
from fedsgt.build.precheck import erasure_problems, requirement_problems
from fedsgt.build.prepare import Prepared, describe, prepare_clients
from fedsgt.build.run_build import open_build
from fedsgt.build.statistics import backbone_checked, discard_stale, make_statistics
from fedsgt.build.targets import Target
from fedsgt.config import Config
from fedsgt.data import Client, Record
from fedsgt.engine.events import DataChecked, Listener, Note, WorkBegun
from fedsgt.errors import InputError
from fedsgt.ledger.kinds import MODULES_CHANGED, Kind
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder, anchored, check_config, create_run
from fedsgt.runs.health import MADE_OTHERWISE, module_health
from fedsgt.runs.kept_records import located
from fedsgt.runs.kept_settings import with_kept_settings
from fedsgt.runs.records import split_note
from fedsgt.runs.register import Registers, new_registers
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import discard_damaged, missing_statistics
from fedsgt.store import Manifest, open_objects
from fedsgt.window import trained_groups
from fedsgt.words import counted


class Recovered(Protocol):
    """Result of completing the deletions of a run that were cut short."""

    @property
    def undestroyed(self) -> Mapping[int, str]:
        """Reason for each request whose files could not be destroyed."""


Recover: TypeAlias = Callable[[RunFolder], Recovered]
"""Completes the deletions of a run that were cut short: `fedsgt.unlearning.recovery.recover`."""


def train(
    config: Config, path: Path, tell: Listener, recover: Recover | None = None, access: ClientAccess = LOCAL
) -> RunFolder:
    """Train the run in this folder and return it.

    Called again, it continues where it stopped, or finds nothing left to do. Deletions that were cut short
    are completed by `recover` first; without it they are an error.
    """
    # Absolute paths, so that any working directory can continue the run.
    config = located(anchored(config), path)
    _check_requirements(config)
    existing = check_config(path, config)
    if existing is None:
        for problem in erasure_problems(config):
            raise InputError(problem)
        prepared = prepare_clients(config, access.load_clients(config))
        note = split_note(config, prepared.data)
        if note is not None:
            tell(Note(note))
        # Every record is checked before anything is written: a bad one leaves no folder behind.
        prepared.check_contents(lambda share: tell(DataChecked(share)))
        registers = new_registers(prepared.data.local)
        folder = create_run(path, prepared.run, describe(prepared), registers, _to_keep(prepared))
        with folder.locked():
            _build(folder, prepared, tell, access)
        return folder
    config = with_kept_settings(config, existing.config)
    folder = RunFolder(path, config, existing.description)
    with folder.locked():
        folder.sweep()  # files that a killed training left half written
        prepared = bring_up_to_date(folder, recover, access)
        _build(folder, prepared, tell, access)
    return RunFolder(path, config, folder.live().description)


def _to_keep(prepared: Prepared) -> tuple[Mapping[int, Client], Sequence[Record]] | None:
    """Return the clients and test records that were given in memory and have no other place."""
    if prepared.data.given_test is None:
        return None
    return dict(enumerate(prepared.data.local)), prepared.test


def _check_requirements(config: Config) -> None:
    """Check trackers, Flower and the object store before the run's folder is created."""
    missing = list(requirement_problems(config))
    if missing:
        raise InputError.of("", missing)
    if config.store.url is not None:
        open_objects(config.store.url).names("modules/")  # raises if the store cannot be reached


def bring_up_to_date(
    folder: RunFolder, recover: Recover | None = None, access: ClientAccess = LOCAL
) -> Prepared:
    """Put every deletion so far into the run's description, and return what a build of it needs.

    The caller must hold the run lock. Groups that were hit get new fingerprints, so the modules that depend
    on them get new keys; all others keep theirs and are not trained again.
    """
    while True:
        live = live_after_recovery(folder, recover)
        known = live.description
        data = access.load_clients(folder.config, known, live.deleted, Registers(folder.path, known))
        prepared = prepare_clients(folder.config, data, known)
        # Without a deletion the description must stay the same, byte for byte.
        fresh = describe(prepared, known, live.position if live.dead else known.as_of)
        difference = known.difference(fresh, live.dead)
        with folder.publishing() as now:
            if now.last_request != live.last_request or now.description is not known:
                continue  # another deletion, or another description, came in while the records were loaded
            if difference is not None:
                raise InputError(
                    f"{folder.path}: {difference} since this run was made; give another folder with -o, or, "
                    "if records were taken out of the source, delete them from this run too "
                    "(fedsgt unlearn RUN --subject ID)"
                )
            if live.dead:
                folder.describe_anew(fresh)
            return prepared


def live_after_recovery(folder: RunFolder, recover: Recover | None) -> Live:
    """Return the live state once the files of every accepted request are destroyed.

    A new description no longer knows the modules of deleted data, so their files must be gone before.
    """
    while True:
        stuck = {} if recover is None else recover(folder).undestroyed
        live = folder.live()
        pending = [request.position for request in live.requests if request.position not in live.finished]
        if not pending:
            return live
        # Another request may have come in after `recover` looked; then it is called again.
        for position in pending:
            if position in stuck:
                raise InputError(
                    f"{folder.path}: no training while data of request no. {position} is not destroyed: "
                    f"{stuck[position]}; nothing was trained, and its modules are not served"
                )
        if recover is None:
            raise InputError(
                f"{folder.path}: request no. {pending[0]} is not completed; fedsgt retrain {folder.path} "
                "completes it"
            )


def _build(folder: RunFolder, prepared: Prepared, tell: Listener, access: ClientAccess) -> None:
    """Train the modules that the run lacks, check who took part, and record it; the caller holds the lock."""
    health = module_health(folder, folder.live(), tensors=True)
    for key, module in health.modules.items():
        if module.reason == MADE_OTHERWISE:  # its bytes are whole, so that the build would keep it
            folder.modules.discard(key)
    discard_damaged(folder)
    discard_stale(folder, prepared.recipe)
    present = {target.key for target in prepared.targets} & health.whole
    missing = [target for target in prepared.targets if target.key not in present]
    tell(work_of(prepared, missing))
    if missing:
        with open_build(folder, prepared, tell, access) as build:
            if present:  # a retraining: one whole sequence serves again as soon as possible
                build.run(most_complete_sequence(prepared, present))
                record_built(folder)  # predictors may use that sequence while the rest is trained
            build.run(prepared.targets)
            make_statistics(folder, prepared, build.engine, tell)
    elif missing_statistics(folder, folder.live()):
        with backbone_checked(folder), access.engine(folder, prepared, tell) as engine:
            make_statistics(folder, prepared, engine, tell)
    # Checked even if nothing was trained: the training that made the modules may have failed this check.
    if access.all_take_part(folder.config):
        check_participation(folder)
    # A training may have been stopped after its last module and before the entry.
    if missing or not _is_built_recorded(folder):
        record_built(folder)


def work_of(prepared: Prepared, missing: Sequence[Target]) -> WorkBegun:
    """Return the event that these modules are about to be trained."""
    rounds, lacking = prepared.run.training.rounds, {target.groups for target in missing}
    sequences = tuple(tuple(sequence) for sequence in prepared.plan.sequences)
    return WorkBegun(
        modules=len(missing),
        rounds=rounds,
        records=prepared.work(missing) * rounds,
        sequences=sequences,
        finished=tuple(sequence for sequence in sequences if sequence not in lacking),
        different=prepared.different_records(missing),
        at_once=_at_once(prepared),
    )


def _at_once(prepared: Prepared) -> int:
    """Return how many clients can train at the same time: remote ones have machines of their own."""
    run = prepared.run
    return len(prepared.clients) if run.data.partition == "remote" else max(1, run.engine.workers)


def most_complete_sequence(prepared: Prepared, present: Collection[str]) -> list[Target]:
    """Return the targets of the sequence that lacks the fewest modules, among those that lack any."""
    by_prefix = {target.groups: target for target in prepared.targets}
    chains = [
        [by_prefix[order[:depth]] for depth in range(1, len(order) + 1)] for order in prepared.plan.sequences
    ]
    lacking = [(sum(target.key not in present for target in chain), chain) for chain in chains]
    return min((entry for entry in lacking if entry[0]), key=lambda entry: entry[0])[1]


def _is_built_recorded(folder: RunFolder) -> bool:
    """Whether the ledger's last entry about modules says that all present ones are built."""
    changes = [entry for entry in folder.ledger.entries() if entry.kind in MODULES_CHANGED]
    last = changes[-1] if changes else None
    return last is not None and last.kind == Kind.BUILT and last.body["modules"] == len(folder.present())


def record_built(folder: RunFolder) -> None:
    """Record in the ledger that modules were built; predictors of this run then look for new ones."""
    with folder.ledger.writing() as writer:
        writer.append(Kind.BUILT, {"modules": len(folder.present())})


def check_participation(folder: RunFolder) -> None:
    """Check that every client with records that a module may train on took part in each round, with all.

    Compares the manifests of the modules that are there with the records that the run has now, which are
    all but the deleted ones. Only for runs in which all clients must take part: remote ones may be left out.
    """
    with folder.publishing() as live:  # the lock holds off deletions, which would remove manifests meanwhile
        description, present = live.description, folder.present()
        for entry in description.modules:
            if entry.key in present:
                trained = trained_groups(tuple(entry.groups), folder.config.training.window)
                expected = _records_by_client(description, trained)
                _check_participants(entry.key, expected, folder.modules.manifest(entry.key))


def _check_participants(key: str, expected: Mapping[str, int], manifest: Manifest) -> None:
    """Raise and name the first client that took part in a round with too few or too many records."""
    for number, found in enumerate(manifest.participants, start=1):
        client = _first_difference(expected, found)
        if client is not None:
            took, holds = counted(found.get(client, 0), "record"), expected.get(client, 0)
            raise InputError(
                f"module {key[:12]}, round {number}: client {client} took part with {took}, "
                f"but holds {holds} of its groups; "
                'train into another folder with -o, or set engine.absent to "go-on" if clients may be missing'
            )


def _records_by_client(description: Description, groups: Collection[int]) -> dict[str, int]:
    """Return the number of records of each client in these groups, without clients that have none."""
    held = {
        client.name: sum(
            records for records, group in zip(client.records, own, strict=True) if group in groups
        )
        for client, own in zip(description.clients, description.groups_of, strict=True)
    }
    return {name: records for name, records in held.items() if records}


def _first_difference(expected: Mapping[str, int], found: Mapping[str, int]) -> str | None:
    names = sorted({*expected, *found})
    return next((name for name in names if expected.get(name) != found.get(name)), None)
