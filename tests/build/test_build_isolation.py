"""Definition 2: a module's bytes depend on its prefix, and on nothing outside it.

Every check here is also made on variants that are broken on purpose, and must find them out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_world import Made, Row, World, made, pgm, started, trained
from tiny_world import build as build_all

from fedsgt.build import prepare as prepare_module
from fedsgt.build import targets as targets_module
from fedsgt.build.prepare import Prepared, prepare
from fedsgt.build.targets import Recipe
from fedsgt.data import Client, Slice
from fedsgt.data.slices import slice_of
from fedsgt.engine import local_update as local
from fedsgt.engine.rounds import OpenRound, RoundStarter
from fedsgt.engine.worker import Worker
from fedsgt.stack.stack import HEAD, Stack

GROUP = 1  # the one that changes; both other groups are trained before it, after it and without it


def leaks(before: Made, after: Made, group: int) -> list[str]:
    """Return what is wrong after a change in one group: other modules changed, or its own did not."""
    assert before.keys() == after.keys()
    assert any(group in groups for groups in before)
    assert any(group not in groups for groups in before)
    found = []
    for groups, (key, sha) in before.items():
        new_key, new_sha = after[groups]
        if group in groups:
            found += [f"{groups}: same key"] * (new_key == key) + [f"{groups}: same bytes"] * (new_sha == sha)
        else:
            found += [f"{groups}: other key"] * (new_key != key) + [f"{groups}: other bytes"] * (
                new_sha != sha
            )
    return found


def content_changed(world: World, inside: list[Row]) -> World:
    other = pgm(np.full(64, 7)) if world.task == "image" else "w1 w1"
    return world.instead(inside[0], content=other)


def label_changed(world: World, inside: list[Row]) -> World:
    return world.instead(inside[0], label=(inside[0].label + 1) % 3)


def record_added(world: World, inside: list[Row]) -> World:
    """With an id that falls into the same slice."""
    old = inside[0]
    place = slice_of(old.id, f"0/{old.client}", 2)
    names = (f"new{number}" for number in range(99))
    name = next(name for name in names if slice_of(name, f"0/{old.client}", 2) == place)
    return replace(world, rows=(*world.rows, replace(old, id=name)))


def record_removed(world: World, inside: list[Row]) -> World:
    return world.without(inside[:1])


def client_removed(world: World, inside: list[Row]) -> World:
    """All that one client has in the group; it has more elsewhere."""
    outside = {row.client for row in world.rows if row not in inside}
    name = next(row.client for row in inside if row.client in outside)
    gone = [row for row in inside if row.client == name]
    assert 1 < len(gone) < len(inside)
    return world.without(gone)


Change = Callable[[World, list[Row]], World]
CHANGES: list[Change] = [content_changed, label_changed, record_added, record_removed, client_removed]


def run_of(world: World) -> Any:
    return world.config("training.epochs=1", "peft.layers=1")


@pytest.fixture(scope="module")
def prepared(images: World) -> Prepared:
    return prepare(run_of(images))


@pytest.fixture(scope="module")
def before(images: World, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return trained(tmp_path_factory.mktemp("before") / "run", run_of(images))


def test_the_world_is_one_in_which_something_could_leak(prepared: Prepared, before: Made) -> None:
    """A client is inside and outside of prefixes at once, and the bytes of all modules differ."""
    counts = prepared.grouping.counts()
    assert any(row[GROUP] and row.sum() > row[GROUP] for row in counts)
    assert len(before) == len(set(before.values())) == 9
    assert {groups[0] for groups in before} == {0, 1, 2}


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_depend_on_a_group_is_untouched_by_its_change(
    images: World, prepared: Prepared, before: Made, tmp_path: Path, change: Change
) -> None:
    after = trained(tmp_path / "run", run_of(change(images, images.inside(prepared, GROUP))))
    assert leaks(before, after, GROUP) == []


@pytest.mark.parametrize("group", [0, 2])
def test_so_it_is_with_every_group(
    images: World, prepared: Prepared, before: Made, tmp_path: Path, group: int
) -> None:
    after = trained(tmp_path / "run", run_of(client_removed(images, images.inside(prepared, group))))
    assert leaks(before, after, group) == []


def test_with_texts_too(texts: World, tmp_path: Path) -> None:
    """There the length of a batch's longest text could leak."""
    longest = " ".join(["w3"] * 16)
    inside = texts.inside(prepare(texts.config()), GROUP)
    changed = texts.instead(inside[0], content=longest)
    plain = trained(tmp_path / "before", texts.config())
    assert leaks(plain, trained(tmp_path / "after", changed.config()), GROUP) == []


# Each function below breaks the isolation on purpose, in a way that real systems break it.


def shared_head(patch: pytest.MonkeyPatch) -> None:
    """All sequences go on with one head."""
    start, end = RoundStarter.start, OpenRound.result
    head: dict[str, Any] = {}

    def broken_start(self: RoundStarter, task: Any) -> Any:
        return start(self, task) | head

    def broken_end(self: OpenRound) -> Any:
        result = end(self)
        head.update({name: array for name, array in result.state.items() if name.startswith(HEAD)})
        return result

    patch.setattr(RoundStarter, "start", broken_start)
    patch.setattr(OpenRound, "result", broken_end)


def head_left_in_worker(patch: pytest.MonkeyPatch) -> None:
    """A job begins with the head that the job before it ended with."""
    patch.setattr(Stack, "_set_head", lambda self, module: None)
    patch.setattr(Stack, "_restore_head", lambda self: None)


def global_order(patch: pytest.MonkeyPatch) -> None:
    """Shuffle all clients' records with one shared generator."""
    shared = np.random.default_rng(0)
    fake = SimpleNamespace(random=SimpleNamespace(default_rng=lambda seed: shared))
    patch.setattr(local, "np", fake)


def torch_order(patch: pytest.MonkeyPatch) -> None:
    """Torch's own generator shuffles."""
    torch.manual_seed(0)
    drawn = SimpleNamespace(permutation=lambda count: torch.randperm(count).numpy())
    patch.setattr(local, "np", SimpleNamespace(random=SimpleNamespace(default_rng=lambda seed: drawn)))


def global_normalisation(patch: pytest.MonkeyPatch) -> None:
    """Mean and deviation are those of all data."""
    inner = Worker.__init__

    def broken(self: Worker, setup: Any) -> None:
        inner(self, setup)
        records = [record for held in setup.slices.values() for part in held for record in part.records]
        pixels = np.stack([self.inputs.item(record.id, record.content)["pixels"] for record in records])
        self.inputs._mean = torch.tensor(pixels.mean() / 255, dtype=torch.float32)  # type: ignore[attr-defined]

    patch.setattr(Worker, "__init__", broken)


def global_class_weights(patch: pytest.MonkeyPatch) -> None:
    """Rare labels weigh more, counted over all data."""
    update = Worker.update
    inner = torch.nn.functional.cross_entropy

    def broken(self: Worker, *arguments: Any) -> Any:
        slices = chain.from_iterable(self.setup.slices.values())
        held = Counter(record.label for part in slices for record in part.records)
        weight = torch.tensor([1 / held[label] for label in range(3)])
        patch.setattr(torch.nn.functional, "cross_entropy", lambda logits, y: inner(logits, y, weight=weight))
        return update(self, *arguments)

    patch.setattr(Worker, "update", broken)


def all_slices_of_a_client(patch: pytest.MonkeyPatch) -> None:
    """Train each client on all its slices, not only on those of the prefix."""
    inner = Worker.update

    def broken(self: Worker, parents: Any, state: Any, client: str, slices: Any, seed: int) -> Any:
        return inner(self, parents, state, client, tuple(range(len(self.setup.slices[client]))), seed)

    patch.setattr(Worker, "update", broken)
    uncounted(patch)


def all_clients(patch: pytest.MonkeyPatch) -> None:
    """Everybody takes part with everything."""
    inner = targets_module.slices_of

    def broken(groups: Any, clients: Any, grouping: Any) -> Any:
        return inner(range(grouping.groups), clients, grouping)

    patch.setattr(targets_module, "slices_of", broken)
    uncounted(patch)


def uncounted(patch: pytest.MonkeyPatch) -> None:
    """A build would already see by the manifests that too many records took part; bytes must show it too."""
    patch.setattr("fedsgt.build.train.check_participation", lambda folder: None)


def lower_layers_over_all_slices(patch: pytest.MonkeyPatch) -> None:
    """Activations of a record are centred by those of all records seen so far."""
    inner = Stack.lower
    seen: list[torch.Tensor] = []

    def broken(self: Stack, batch: Any) -> torch.Tensor:
        hidden = inner(self, batch)
        seen.append(hidden.mean())
        return hidden - torch.stack(seen).mean()

    patch.setattr(Stack, "lower", broken)


def key_of_all_groups(patch: pytest.MonkeyPatch) -> None:
    """A key that names the whole run: nothing could be kept after a deletion."""
    inner = targets_module.make_targets

    def broken(recipe: Recipe, clients: Any, grouping: Any, plan: Any) -> Any:
        prints = targets_module.group_fingerprints(clients, grouping)
        wide = Recipe({**recipe.config, "groups": prints}, recipe.backbone, recipe.profile)
        return inner(wide, clients, grouping, plan)

    patch.setattr(prepare_module, "make_targets", broken)


def key_without_data(patch: pytest.MonkeyPatch) -> None:
    """A key that names groups by number: what a deletion invalidates would be found again."""

    def broken(clients: Any, grouping: Any) -> Any:
        return [f"{group:064x}" for group in range(grouping.groups)]

    patch.setattr(targets_module, "group_fingerprints", broken)


Break = Callable[[pytest.MonkeyPatch], None]
BROKEN: list[tuple[Break, Change]] = [
    (shared_head, content_changed),
    (head_left_in_worker, content_changed),
    (global_order, client_removed),
    (torch_order, record_added),
    (global_normalisation, content_changed),
    (global_class_weights, label_changed),
    (all_slices_of_a_client, content_changed),
    (all_clients, record_removed),
    (lower_layers_over_all_slices, content_changed),
    (key_of_all_groups, label_changed),
    (key_without_data, content_changed),
]


@pytest.mark.parametrize(("broken", "change"), BROKEN, ids=lambda value: value.__name__)
def test_a_leak_would_be_found(
    images: World, prepared: Prepared, tmp_path: Path, broken: Break, change: Change
) -> None:
    found = []
    for name, world in (("before", images), ("after", change(images, images.inside(prepared, GROUP)))):
        with pytest.MonkeyPatch.context() as patch:
            broken(patch)
            found.append(trained(tmp_path / name, run_of(world)))
    assert leaks(found[0], found[1], GROUP) != []


def keyed_by_place(patch: pytest.MonkeyPatch) -> None:
    """Look up cached outputs by client and number of the slice, not by its fingerprint."""
    inner = Client.training_slices

    def broken(self: Client) -> tuple[Slice, ...]:
        parts = enumerate(inner(self))
        return tuple(replace(part, fingerprint=f"{self.name}-{n}") for n, part in parts)

    patch.setattr(Client, "training_slices", broken)


@pytest.mark.parametrize("broken", [None, keyed_by_place])
def test_a_cache_from_before_a_change_is_of_no_effect(
    images: World,
    prepared: Prepared,
    before: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Break | None,
) -> None:
    """The old cache is put beside the new data, as it would lie in a folder that is used again."""
    if broken is not None:
        broken(monkeypatch)
    changed = content_changed(images, images.inside(prepared, GROUP))
    old, folder = started(tmp_path / "old", run_of(images))
    build_all(old, folder)
    fresh = trained(tmp_path / "fresh", run_of(changed))
    new, again = started(tmp_path / "again", run_of(changed))
    folder.cache.rename(again.cache)
    build_all(new, again)
    assert (made(again) == fresh) == (broken is None)
