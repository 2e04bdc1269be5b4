"""Comparison from Python: `fedsgt.compare`, a loop over seeds, systems and deletion requests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fedsgt.api.comparing.arguments import Arguments, SeedData, read_arguments, seed_data
from fedsgt.api.comparing.folder import Compared, ComparisonFolder
from fedsgt.api.comparing.progress import (
    ComparisonProgress,
    Meter,
    SystemWork,
    comparison_listener,
    share_told,
)
from fedsgt.api.comparing.requests import AnyStream
from fedsgt.api.comparing.systems import AnySystems, ComparedSystem
from fedsgt.api.results.comparison import Comparison, Point
from fedsgt.api.run import Run, open_run
from fedsgt.api.session import Session
from fedsgt.api.train import AnyConfig, AnyPath, train_run
from fedsgt.errors import InputError
from fedsgt.ledger.marks import MarkFile
from fedsgt.reporting.accuracy import accuracy_after
from fedsgt.reporting.costs import statistics_cost
from fedsgt.runs.description import Description
from fedsgt.window import share_used, trained_groups

if TYPE_CHECKING:
    from fedsgt.api.results.deletions import Receipt
    from fedsgt.serving.accuracy import Accuracy


def compare(
    config: AnyConfig,
    systems: AnySystems = ("fedsgt", "fedavg", "fedcio"),
    *,
    stream: AnyStream = "slices",
    requests: int = 10,
    seeds: int | Sequence[int] = 1,
    output: AnyPath | None = None,
    data: Any = None,
    overrides: Sequence[str] = (),
    progress: ComparisonProgress = None,
) -> Comparison:
    """Train several systems, make the same deletion requests to each, and return the accuracy after each.

    `config` and `data` are as for `train`; `overrides` are put over `config` for all systems. `systems` has
    names (fedsgt, fedavg, fedretrain, fedcio, fedcio-retrain, sisa, s3t), or labels with settings, as in
    {"tree": ["plan.kind=tree"], "four": ["fedcio", "grouping.groups=4", "plan.shards=4"]}.

    `stream` is "slices" (each request deletes a tenth of a random slice, as in the paper), "clients" (whole
    clients), "records" (single records), or a list of requests, each a `Deletion` or a client's name and ids.
    A drawn stream has so many `requests`, or fewer if nothing is left. Every system of a seed gets the same
    records to delete, and trains again when its policy (`unlearning.retrain`) asks for it.

    `seeds` is a number n, for the seeds 0 to n-1, or a list. A seed is another partition, grouping, training
    and stream, in place of the seeds in `config`. `output` keeps the runs and the results, and the same call
    goes on there after a stop; without it, a temporary folder is removed at the end.
    """
    arguments = read_arguments(config, systems, stream, requests, seeds, output, data, overrides)
    with ExitStack() as opened:
        folder = ComparisonFolder(arguments.output or opened.enter_context(_temporary()))
        opened.enter_context(folder.held())
        drawn = _prepared(arguments, folder)
        session = Session()
        opened.callback(session.close)
        loop = _Loop(arguments, folder, drawn, session, _meter(arguments, drawn, progress))
        return loop.run()


@contextmanager
def _temporary() -> Iterator[Path]:
    """Yield a folder that is removed in the end, with the high-water marks of its runs."""
    with TemporaryDirectory(prefix="fedsgt-compare-") as name:
        try:
            yield Path(name)
        finally:
            for file in Path(name).glob("runs/*/*/run.json"):
                MarkFile(Description.read(file.read_text(encoding="utf-8"), str(file)).id).forget()


def _prepared(arguments: Arguments, folder: ComparisonFolder) -> dict[int, SeedData]:
    """Check all that can be checked before training, and return the requests of each seed."""
    from fedsgt.build.precheck import precheck

    first, mistakes = arguments.seeds[0], list[str]()
    # A folder that was begun is held against what it was begun with instead.
    for system in () if folder.begun else arguments.systems:
        try:
            precheck(arguments.for_run(system, first)[0], folder.run(system.label, first))
        except InputError as error:
            mistakes += error.mistakes or (str(error),)
    if mistakes:
        raise InputError.of("", list(dict.fromkeys(mistakes)))
    drawn = {seed: seed_data(arguments, seed) for seed in arguments.seeds}
    configs = {system.label: arguments.settings(system, first) for system in arguments.systems}
    requests = {seed: found.requests for seed, found in drawn.items()}
    folder.begin(Compared.of(configs, arguments.stream_name, arguments.requests, requests))
    return drawn


def _meter(arguments: Arguments, drawn: dict[int, SeedData], progress: ComparisonProgress) -> Meter:
    some = next(iter(drawn.values()))
    work = {
        system.label: SystemWork.of(arguments.settings(system, 0), some.records, some.tests)
        for system in arguments.systems
    }
    return Meter.of(work, [len(found.requests) for found in drawn.values()], comparison_listener(progress))


@dataclass
class _Loop:
    """The loop over seeds, systems and requests; results that are there are not made again."""

    arguments: Arguments
    folder: ComparisonFolder
    drawn: dict[int, SeedData] = field(repr=False)
    session: Session
    meter: Meter
    chance: float = 0.0

    def run(self) -> Comparison:
        """Go through all of them, and return the results."""
        # Seed by seed, so that a comparison that is stopped has compared something.
        for seed in self.arguments.seeds:
            for system in self.arguments.systems:
                self._system(system, seed)
        order = {system.label: number for number, system in enumerate(self.arguments.systems)}
        points = sorted(self.folder.points, key=lambda one: (order[one.system], one.seed, one.request))
        return Comparison(
            systems=tuple(order),
            seeds=self.arguments.seeds,
            stream=self.arguments.stream_name,
            requests=max(len(found.requests) for found in self.drawn.values()),
            chance=self.chance,
            points=tuple(points),
            output=self.arguments.output,
        )

    def _system(self, system: ComparedSystem, seed: int) -> None:
        found, path = self.drawn[seed], self.folder.run(system.label, seed)
        known = self.folder.points_of(system.label, seed)
        self.meter.place = system.label, seed
        if known:
            # Opened, not trained: a training would replace what requests have killed.
            run = self._opened(path)
            self.meter.skip(system.label, len(known) - 1)
        else:
            run, point = self._trained(system, seed, path)
            self._add(point)
            known.append(point)
        self.chance = 1 / run.folder.description.labels
        for number in range(len(known), len(found.requests) + 1):
            with self.meter.step():
                point = self._after(run, number, known)
            self._add(point)
            known.append(point)

    def _trained(self, system: ComparedSystem, seed: int, path: Path) -> tuple[Run, Point]:
        config, given = self.arguments.for_run(system, seed)
        with self.meter.training(system.label) as advance:
            started = time.monotonic()
            train_run(self.session, config, path, given, share_told(advance, 0.9))
            seconds = time.monotonic() - started
            run = self._opened(path)
            found = run.evaluate(progress=lambda share: advance(0.9 + 0.1 * share)).accuracy
        passes = self._passes(run, seed) + (
            config.grouping.method == "updates"
        )  # first updates of all clients
        forward = self._forward(run, seed)
        return run, self._point(run, (system.label, seed, 0), found, seconds, passes, forward=forward)

    def _opened(self, path: Path) -> Run:
        # One session for all runs, as each would start torch anew; nothing of an earlier run stays in it.
        self.session.state.clear()
        return open_run(path, session=self.session)

    def _after(self, run: Run, number: int, known: Sequence[Point]) -> Point:
        """Make a request, retrain if the policy asks for it, and score what is served then."""
        label, seed = known[0].system, known[0].seed
        data, started = self.drawn[seed], time.monotonic()
        wanted = data.requests[number - 1].deletions(data.owners[label])
        # With a key, a request that was made before a stop is not made again.
        receipt = run.unlearn(deletions=wanted, key=f"comparison, request {number}")
        if receipt.pending is not None:
            raise InputError(f"{run.path}: {receipt.pending}; the comparison goes on once that can be done")
        if any(client.left for client in run.clients):
            with self.meter.retraining(label) as advance:
                run.retrain(if_due=True, progress=share_told(advance))
        if run.config.heads.solve and any(client.left for client in run.clients):
            run.renew_heads(progress=False)  # nothing is left to do after a training
        seconds = time.monotonic() - started
        retrained = run.folder.live().description.as_of >= receipt.number
        passes = self._passes(run, seed, _hit(receipt, known)) if retrained else 0.0
        # Score the heads that were solved again: from kept features, so that no model is needed.
        known_now = accuracy_after(run.folder, patient=True).now if not retrained else None
        found = known_now if known_now is not None else run.evaluate().accuracy
        forward = self._forward(run, seed, receipt, _hit(receipt, known) if retrained else set())
        place = (label, seed, number)
        return self._point(run, place, found, seconds, passes, receipt.groups, forward)

    def _forward(
        self, run: Run, seed: int, receipt: Receipt | None = None, groups: AbstractSet[int] = frozenset()
    ) -> float:
        """Return the forward passes for statistics: of all chains, or after a request.

        After one, its clients pass through all live chains those records that were deleted, or those left if
        they are fewer; and all clients pass theirs through the modules that were trained again.
        """
        cost = statistics_cost(run.config, run.folder.live().description)
        if cost is None:
            return 0.0
        if receipt is None:
            return cost.forward_passes
        described, all_records = run.folder.live().description, self.drawn[seed].records
        again = sum(bool(groups & set(one.groups)) for one in described.modules)
        status = run.status(requests=1).detail
        chains = (status.heads.chains if status.heads is not None else 0) - again
        taken = sum(min(share.records, share.left) for share in receipt.clients)
        left = sum(client.left for client in run.clients)
        return run.config.heads.share * (max(0, chains) * taken + again * left) / all_records

    def _passes(self, run: Run, seed: int, groups: set[int] | None = None) -> float:
        """Return the cost of the modules that depend on one of these groups, or of all."""
        described, sizes = run.folder.live().description, dict[int, int]()
        for client, own in zip(described.clients, described.groups_of, strict=True):
            for records, group in zip(client.records, own, strict=True):
                sizes[group] = sizes.get(group, 0) + records
        trained = [
            tuple(one.groups) for one in described.modules if groups is None or groups & set(one.groups)
        ]
        training = run.config.training
        visited = sum(
            share_used(len(prefix), training.window)
            * sum(sizes[group] for group in trained_groups(prefix, training.window))
            for prefix in trained
        )
        return float(visited * training.rounds / self.drawn[seed].records)

    def _point(
        self,
        run: Run,
        place: tuple[str, int, int],
        found: Accuracy | None,
        seconds: float,
        passes: float,
        groups: Sequence[int] = (),
        forward: float = 0.0,
    ) -> Point:
        label, seed, number = place
        return Point(
            system=label,
            seed=seed,
            request=number,
            accuracy=None if found is None else found.accuracy,
            low=None if found is None else found.low,
            high=None if found is None else found.high,
            live_modules=run.status(requests=1).live_modules,
            seconds=seconds,
            passes=passes,
            groups=tuple(groups),
            forward=forward,
        )

    def _add(self, point: Point) -> None:
        self.folder.add(point)
        self.meter.found(point)


def _hit(receipt: Receipt, known: Sequence[Point]) -> set[int]:
    """Return the groups that requests have hit since the last training."""
    found = set(receipt.groups)
    for point in reversed(known):
        if point.passes:
            break
        found.update(point.groups)
    return found
