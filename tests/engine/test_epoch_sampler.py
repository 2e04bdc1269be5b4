"""The window: an epoch of a deep phase uses few of its prefix's records, chosen one by one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tiny_world import Made, Quiet, World, build, made, started, trained

from fedsgt.build import targets as targets_module
from fedsgt.build.prepare import Prepared, prepare
from fedsgt.build.train import train
from fedsgt.config import Config
from fedsgt.data import Client, Record
from fedsgt.engine import local_update as local
from fedsgt.engine.epoch_sampler import EpochSampler
from fedsgt.engine.events import ClientUpdated, WorkBegun
from fedsgt.engine.local_update import Example
from fedsgt.engine.task import Update
from fedsgt.engine.worker import Setup, Worker
from fedsgt.files.tensors import Tensors
from fedsgt.proof.verify import verify
from fedsgt.runs.folder import RunFolder
from fedsgt.store import tensor_hash
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

SALT = b"s" * 32


def examples(count: int) -> list[Example]:
    return [(Record(f"r{number:05d}", ("text",), 0), {}) for number in range(count)]


def ids(chosen: list[Example]) -> list[str]:
    return [record.id for record, _ in chosen]


@pytest.mark.parametrize(("groups", "depth"), [(1, 2), (1, 10), (2, 3), (9, 10)])
def test_an_epoch_uses_about_its_share_of_the_records(groups: int, depth: int) -> None:
    count = 20_000
    used = EpochSampler(Fraction(groups, depth), 7, SALT).used(examples(count), 0)
    share = groups / depth
    deviation = (count * share * (1 - share)) ** 0.5
    assert abs(len(used) - count * share) < 4 * deviation
    assert ids(used) == sorted(ids(used))


def test_other_epochs_modules_and_clients_use_other_records() -> None:
    windows = [
        EpochSampler(Fraction(1, 2), 7, SALT),
        EpochSampler(Fraction(1, 2), 8, SALT),
        EpochSampler(Fraction(1, 2), 7, b"t" * 32),
    ]
    draws = [set(ids(window.used(examples(400), epoch))) for window in windows for epoch in range(3)]
    for number, one in enumerate(draws):
        for other in draws[:number]:
            assert 50 < len(one & other) < 150  # as of two independent halves


def test_a_wider_window_uses_the_same_records_and_more() -> None:
    one, two = (
        set(ids(EpochSampler(Fraction(groups, 5), 7, SALT).used(examples(400), 0))) for groups in (1, 2)
    )
    assert one < two


def by_place(self: EpochSampler, examples: list[Example], epoch: int) -> list[Example]:
    """Break the window: a record's place among the others decides."""
    return examples[epoch % self.share.denominator :: self.share.denominator]


def as_it_is(patch: pytest.MonkeyPatch) -> None: ...


def broken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EpochSampler, "used", by_place)


@pytest.mark.parametrize(("change", "same"), [(as_it_is, True), (broken, False)])
def test_a_deleted_record_changes_no_epoch_of_the_others(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None], same: bool
) -> None:
    change(monkeypatch)
    window, records = EpochSampler(Fraction(1, 3), 7, SALT), examples(60)
    equal = [
        [one for one in window.used(records, epoch) if one[0].id != gone[0].id]
        == window.used([one for one in records if one is not gone], epoch)
        for gone in records
        for epoch in range(3)
    ]
    assert all(equal) == same


# In a worker


@pytest.fixture(scope="module")
def prepared(images: World) -> Prepared:
    return prepare(images.config("training.epochs=3"))


def updated(prepared: Prepared, window: int | str | None, depth: int = 3, **training: Any) -> Update:
    """Return the update of one client's round at this depth."""
    settings = prepared.run.training.model_copy(update={"window": window, **training})
    run = prepared.run.model_copy(update={"training": settings})
    stack = prepared.model.stack
    state = stack.begin(1, stack.initial_head(1))
    below: dict[str, Tensors] = {str(number): stack.finish(state) for number in range(depth - 1)}
    labels, clients = prepared.data.labels, prepared.data.local
    worker = Worker(Setup.for_clients(run, labels, clients, None, below.__getitem__, None))
    return worker.update(tuple(below), state, clients[0].name, (0, 1), 7)


@pytest.mark.parametrize("window", [3, 4, 10_000, "own"])
def test_a_window_as_long_as_the_prefix_changes_no_byte(prepared: Prepared, window: int | str) -> None:
    """With "own" the task names the slices of the last group, and all their records are used."""
    assert tensor_hash(updated(prepared, window).state) == tensor_hash(updated(prepared, None).state)


def test_a_shorter_window_trains_on_fewer_records_and_counts_all(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, seen = updated(prepared, None), []
    inner = EpochSampler.used

    def noted(self: EpochSampler, examples: list[Example], epoch: int) -> list[Example]:
        seen.append(inner(self, examples, epoch))
        assert (self.share, self.salt) == (Fraction(1, 3), prepared.data.local[0].salt)
        return seen[-1]

    monkeypatch.setattr(EpochSampler, "used", noted)
    found = updated(prepared, 1)
    assert tensor_hash(found.state) != tensor_hash(whole.state)
    assert found.records == whole.records == len(prepared.data.local[0].records)
    assert len(seen) == 3
    assert all(len(used) < found.records for used in seen)
    assert tensor_hash(updated(prepared, 1).state) == tensor_hash(found.state)


@pytest.mark.parametrize(("numbers", "taken"), [([4, 0, 9], 4 + 9), ([4, 9, 0], 4 + 9), ([0, 0, 0], 0)])
def test_an_epoch_without_a_record_takes_no_step(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch, numbers: list[int], taken: int
) -> None:
    """The loss is that of the last epoch that used a record."""
    steps: list[tuple[int, float]] = []
    inner = local._step

    def counted(*args: Any) -> float:
        steps.append((len(args[2]), inner(*args)))
        return steps[-1][1]

    monkeypatch.setattr(local, "_step", counted)
    monkeypatch.setattr(EpochSampler, "used", lambda self, given, epoch: given[: numbers[epoch]])
    update = updated(prepared, 1, batch_size=100)
    assert sum(size for size, _ in steps) == taken
    assert update.loss == pytest.approx(steps[-1][1] if steps else 0.0)
    stack = prepared.model.stack
    untouched = tensor_hash(stack.begin(1, stack.initial_head(1)))
    assert (tensor_hash(update.state) == untouched) == (not steps)


# In a run

WINDOWS = ["1", "2", "own"]


def run_of(images: World, window: str, *overrides: str) -> Config:
    return images.config("training.epochs=2", "peft.layers=1", f"training.window={window}", *overrides)


@pytest.fixture(scope="module")
def runs(images: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    place = tmp_path_factory.mktemp("windows")
    return {window: train(run_of(images, window), place / window, Quiet()) for window in WINDOWS}


def test_each_window_makes_other_modules(runs: dict[str, RunFolder]) -> None:
    found = [made(folder) for folder in runs.values()]
    for module in found[0]:
        assert len({modules[module] for modules in found}) == len(WINDOWS)


@pytest.mark.parametrize("window", WINDOWS)
def test_flower_makes_the_modules_of_the_in_process_engine(
    runs: dict[str, RunFolder], images: World, tmp_path: Path, window: str
) -> None:
    assert trained(tmp_path / "run", run_of(images, window, "engine.name=flower")) == made(runs[window])


@pytest.mark.parametrize("window", WINDOWS)
def test_a_stopped_training_goes_on_to_the_same_modules(
    runs: dict[str, RunFolder], images: World, tmp_path: Path, window: str
) -> None:
    prepared, folder = started(tmp_path / "run", run_of(images, window))
    build(prepared, folder, prepared.targets[:4])
    folder.ledger.close()
    assert trained(tmp_path / "run", run_of(images, window)) == made(runs[window])


@pytest.mark.parametrize("window", WINDOWS)
def test_records_of_a_group_touch_the_modules_on_it_alone(
    runs: dict[str, RunFolder], images: World, tmp_path: Path, window: str
) -> None:
    gone = images.inside(prepare(run_of(images, window)), 1)[:1]
    after = trained(tmp_path / "run", run_of(images.without(gone), window))
    for groups, module in made(runs[window]).items():
        assert (after[groups] == module) == (1 not in groups)


@pytest.mark.parametrize("window", WINDOWS)
def test_verification_rebuilds_the_modules(images: World, tmp_path: Path, window: str) -> None:
    folder = train(run_of(images, window), tmp_path / "run", Quiet())
    gone = images.inside(prepare(run_of(images, window)), 1)[0]
    unlearn(folder, [Deletion(gone.client, records=(gone.id,))])
    found = verify(folder)
    assert found.passed
    assert found.counts == {"same": 3}


@pytest.mark.parametrize(("window", "same"), [("3", True), ("2", False), ("own", False)])
def test_a_window_of_all_groups_makes_the_bytes_of_none(
    images: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: str, same: bool
) -> None:
    """Seeds come from keys, so the setting is kept out of the keys to compare."""
    monkeypatch.setattr(targets_module, "_unused", lambda training: {"start", "window"})
    without = trained(tmp_path / "without", images.config("training.epochs=2", "peft.layers=1"))
    found: Made = trained(tmp_path / "with", run_of(images, window))
    assert (found == without) == same
    assert {groups: found[groups] for groups in found if len(groups) == 1} == {
        groups: without[groups] for groups in without if len(groups) == 1
    }


def test_clients_average_by_the_records_that_they_hold(runs: dict[str, RunFolder], images: World) -> None:
    """A client cannot gain weight by luck, or by what it says that it has used."""
    for window, folder in runs.items():
        prepared = prepare(run_of(images, window))
        sizes: dict[str, Client] = {client.name: client for client in prepared.data.local}
        for target in prepared.targets:
            held = {
                name: sum(sizes[name].slice_sizes()[index] for index in chosen)
                for name, chosen in target.slices.items()
            }
            (took_part,) = folder.modules.manifest(target.key).participants
            assert took_part == {name: records for name, records in held.items() if records}


@pytest.mark.parametrize("window", WINDOWS)
def test_progress_counts_the_records_that_epochs_use(images: World, tmp_path: Path, window: str) -> None:
    """The updates' work adds up to what was announced, so that bars end full and times are right."""
    told = Quiet()
    folder = train(run_of(images, window), tmp_path / "run", told)
    (begun,) = (event for event in told.events if isinstance(event, WorkBegun))
    updates = [event for event in told.events if isinstance(event, ClientUpdated)]
    assert sum(event.work for event in updates) == begun.records
    per_epoch = begun.records / len(images.rows)
    planned = folder.description.plan_made().with_window(folder.config.training.window).passes
    assert per_epoch == pytest.approx(planned, rel=0.05)  # each client's share is rounded
    if window != "own":
        for event in updates:
            assert (event.used is None) == (len(event.groups) <= int(window))
