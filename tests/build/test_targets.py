"""Build targets: a key stands for all that shapes a module's bytes, and for nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from tiny_world import World

from fedsgt import grouping, plans
from fedsgt.build.prepare import Prepared, prepare
from fedsgt.build.targets import Recipe, make_recipe, make_targets, slices_of
from fedsgt.data import Client, Record
from fedsgt.grouping import Grouping

RECIPE = Recipe({"labels": 3, "peft": {"rank": 2}}, "b" * 64, {"threads": "1", "torch": "2.9"})
PREFIX = ["1" * 64, "2" * 64, "3" * 64]
GROUPS = 3


def clients(changed: str | None = None) -> list[Client]:
    """Return four clients with two slices each; the label of the record `changed` is another."""
    return [
        Client.simulated(
            name,
            tuple(
                Record(f"{name}{number}", (f"text {number}",), int(f"{name}{number}" == changed), None)
                for number in range(8)
            ),
            2,
            seed=0,
        )
        for name in "abcd"
    ]


@pytest.fixture(scope="module")
def grouped() -> Grouping:
    return grouping.make("random", [2] * 4, GROUPS, seed=1)


def test_a_key_never_changes_between_versions() -> None:
    assert RECIPE.key(PREFIX) == "5f73ca2397d1c63e40e209d0cdf8f9dbd5070507c15a6e7e9b52c1d0b574f7a6"


def test_a_key_changes_with_whatever_shapes_the_bytes() -> None:
    others = [
        replace(RECIPE, config={"labels": 3, "peft": {"rank": 4}}),
        replace(RECIPE, config={**RECIPE.config, "more": None}),
        replace(RECIPE, backbone="c" * 64),
        replace(RECIPE, profile={**RECIPE.profile, "threads": "2"}),
        replace(RECIPE, profile={"threads": "1"}),
    ]
    orders = [*permutations(PREFIX), PREFIX[:2], PREFIX[:1], [], [*PREFIX, PREFIX[0]]]
    keys = [recipe.key(PREFIX) for recipe in others] + [RECIPE.key(order) for order in orders]
    assert len(set(keys)) == len(keys)


def test_a_key_does_not_change_with_the_order_in_which_settings_are_named() -> None:
    def turned(values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(reversed(list(values.items())))

    again = Recipe(turned(RECIPE.config), RECIPE.backbone, turned(RECIPE.profile))
    assert again.key(tuple(PREFIX)) == RECIPE.key(PREFIX)


def test_targets_stand_on_one_another_and_train_on_all_their_groups(grouped: Grouping) -> None:
    held, plan = clients(), plans.make("rotations", GROUPS)
    targets = make_targets(RECIPE, held, grouped, plan)
    keys = {target.groups: target.key for target in targets}
    assert list(keys) == [module.prefix for module in plan.modules]
    assert len(set(keys.values())) == len(targets) == 9
    for number, target in enumerate(targets):
        assert target.parents == tuple(keys[target.groups[:depth]] for depth in range(1, len(target.groups)))
        assert target.parent == (target.parents[-1] if target.parents else None)
        assert {before.key for before in targets[:number]}.issuperset(target.parents)
        assert target.key == RECIPE.key(target.prefix)
        assert {(name, index) for name, indices in target.slices.items() for index in indices} == {
            (held[client].name, index)
            for group in target.groups
            for client, index in grouped.slice_ids(group)
        }


def test_with_the_window_own_a_module_trains_on_its_last_group_and_stands_on_its_prefix(
    grouped: Grouping,
) -> None:
    held, plan = clients(), plans.make("rotations", GROUPS)
    whole = make_targets(RECIPE, held, grouped, plan)
    own = make_targets(RECIPE, held, grouped, plan.with_window("own"))
    for before, target in zip(whole, own, strict=True):
        assert (target.key, target.parents) == (before.key, before.parents)
        assert target.slices == slices_of(target.groups[-1:], held, grouped)
    assert make_targets(RECIPE, held, grouped, plan.with_window(1)) == whole


def test_a_module_has_one_key_in_all_plans(grouped: Grouping) -> None:
    """So that a module of one plan is never trained again for another."""
    many = make_targets(RECIPE, clients(), grouped, plans.make("rotations", GROUPS))
    keys = {target.groups: target.key for target in many}
    for target in make_targets(RECIPE, clients(), grouped, plans.make("rotations", GROUPS, budget=1)):
        assert target.key == keys[target.groups]


def test_a_changed_record_changes_the_keys_of_its_group_and_no_other(grouped: Grouping) -> None:
    plan = plans.make("rotations", GROUPS)
    before = make_targets(RECIPE, clients(), grouped, plan)
    after = make_targets(RECIPE, clients(changed="c5"), grouped, plan)
    (place,) = clients()[2].locate(["c5"])
    (hit,) = (group for group in range(GROUPS) if (2, place) in grouped.slice_ids(group))
    differing = {old.groups for old, new in zip(before, after, strict=True) if old.key != new.key}
    assert differing == {target.groups for target in before if hit in target.groups}


def test_slices_stand_in_one_order_whatever_the_order_of_groups(grouped: Grouping) -> None:
    held = clients()
    found = [list(slices_of(order, held, grouped).items()) for order in permutations(range(GROUPS))]
    assert all(slices == found[0] for slices in found)
    assert found[0] == [(name, (0, 1)) for name in "abcd"]
    # Clients without a slice in the groups take no part.
    assert slices_of((0,), held, grouped).keys() == {held[client].name for client, _ in grouped.slice_ids(0)}


@pytest.fixture(scope="module")
def prepared(images: World) -> Prepared:
    return prepare(images.config())


SHAPING = [
    "training.epochs=2",
    "training.rounds=2",
    "training.seed=1",
    "training.start=common",
    "training.window=1",
    "training.window=9",
    "training.window=own",
    "training.clip=0.5",
    "peft.rank=3",
    "peft.alpha=2",
    "peft.freeze_a=true",
    "peft.kind=ia3",
    "privacy.epsilon=1",
]


@pytest.mark.parametrize("change", SHAPING)
def test_a_setting_that_shapes_the_bytes_is_in_the_recipe(
    change: str, images: World, prepared: Prepared
) -> None:
    recipe = make_recipe(images.config(change), 3, prepared.model)
    assert recipe.config_hash != prepared.recipe.config_hash


NOT_SHAPING = [
    "engine.workers=2",
    "engine.name=flower",
    "plan.kind=tree",
    "grouping.groups=2",
    "grouping.method=bac",
    "data.alpha=0.9",
    "peft.tokens=9",  # of prefix tuning, which this run does not use
    "privacy.delta=0.1",  # of noise, which this run does not add
    "serving.strategy=long",
    "unlearning.retrain=now",
    "store.url=memory://elsewhere",
]


@pytest.mark.parametrize("change", NOT_SHAPING)
def test_any_other_setting_may_change_and_keys_stay(change: str, images: World, prepared: Prepared) -> None:
    assert make_recipe(images.config(change), 3, prepared.model) == prepared.recipe


def test_the_number_of_labels_is_in_the_recipe(images: World, prepared: Prepared) -> None:
    recipe = make_recipe(images.config(), 4, prepared.model)
    assert recipe.config_hash != prepared.recipe.config_hash
