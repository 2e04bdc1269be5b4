"""Preparing a run: keys of its modules, and errors that name the first record that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_world import Quiet, World, trained

from fedsgt.build.prepare import describe, prepare
from fedsgt.build.train import train
from fedsgt.config import load, to_toml
from fedsgt.errors import InputError

# Keys.

SHAPING: dict[str, str] = {
    "training.learning_rate": "0.5",
    "training.optimizer": "sgd",
    "training.epochs": "9",
    "training.rounds": "9",
    "training.batch_size": "9",
    "training.weight_decay": "0.5",
    "training.clip": "0.5",
    "training.seed": "9",
    "training.start": "common",
    "peft.kind": "ia3",
    "peft.rank": "3",
    "peft.alpha": "3",
    "peft.layers": "1",
    "peft.targets": '["mlp.fc2"]',
    "peft.freeze_a": "true",
    "model.image_size": "12",
    "model.mean": "[0.1, 0.2, 0.3]",
    "model.std": "[0.1, 0.2, 0.3]",
    "data.labels": "4",
}
NOT_SHAPING: dict[str, str] = {
    "engine.workers": "9",
    "plan.kind": "tree",
    "plan.seed": "9",
    "serving.port": "9",
    "store.url": "memory://other",
    "data.test_limit": "3",
    "peft.tokens": "9",
    "peft.hidden": "9",
    "model.max_length": "9",
    "peft.alpha": "16",
}


def keys(world: World, *overrides: str) -> dict[tuple[int, ...], str]:
    return {target.groups: target.key for target in prepare(world.config(*overrides)).targets}


@pytest.mark.parametrize("setting", SHAPING)
def test_what_shapes_a_module_is_in_its_key(images: World, setting: str) -> None:
    assert not set(keys(images).values()) & set(keys(images, f"{setting}={SHAPING[setting]}").values())


@pytest.mark.parametrize("setting", NOT_SHAPING)
def test_what_does_not_is_not(images: World, setting: str) -> None:
    """So that such a change finds its modules again."""
    known, found = keys(images), keys(images, f"{setting}={NOT_SHAPING[setting]}")
    shared = known.keys() & found.keys()
    assert len(shared) > 3
    assert all(known[groups] == found[groups] for groups in shared)


def test_settings_that_came_later_are_named_only_where_they_are_used(images: World) -> None:
    """So that modules which were made before are found again."""
    first = {"optimizer", "learning_rate", "epochs", "rounds", "batch_size", "weight_decay", "clip", "seed"}
    named = {
        start: set(prepare(images.config(f"training.start={start}")).recipe.config["training"])
        for start in ("own", "common")
    }
    assert named == {"own": first, "common": first | {"start"}}


def test_settings_written_and_read_again_give_the_same_keys(images: World, tmp_path: Path) -> None:
    run = images.config()
    (tmp_path / "run.toml").write_text(to_toml(run))
    again = prepare(load(tmp_path / "run.toml"))
    assert [target.key for target in again.targets] == list(keys(images).values())


def test_the_order_of_records_in_the_source_does_not_matter(images: World) -> None:
    backwards = World(images.folder, images.task, images.rows[::-1])
    assert keys(backwards) == keys(images)


def test_targets_are_what_the_plan_wants(images: World) -> None:
    prepared = prepare(images.config())
    for target, module in zip(prepared.targets, prepared.plan.modules, strict=True):
        assert target.groups == module.prefix
        inside = {(row.client, row.id) for group in target.groups for row in images.inside(prepared, group)}
        held = {client.name: client for client in prepared.data.local}
        found = {
            (name, record.id)
            for name, slices in target.slices.items()
            for index in slices
            for record in held[name].cut()[index]
        }
        assert found == inside, "all slices of its prefix, and no other"
        assert prepared.records(target) == len(inside)


# Data and settings that cannot be used.


def refused(world: World, path: Path, *overrides: str) -> str:
    with pytest.raises(InputError) as caught:
        train(world.config(*overrides), path, Quiet())
    assert not list(path.parent.glob(f"*{path.name}*")), "nothing is written"
    assert "\n" not in str(caught.value)
    return str(caught.value)


IMAGES: dict[str, Any] = {
    "text": b"not an image",
    "empty": b"",
    "cut": b"P5 8 8 255\n" + b"x" * 20,
}


@pytest.mark.parametrize("content", IMAGES)
@pytest.mark.parametrize("method", ["random", "bac", "updates"])
def test_an_image_that_does_not_decode(images: World, tmp_path: Path, content: str, method: str) -> None:
    bad = images.rows[7]
    world = images.instead(bad, content=IMAGES[content])
    message = refused(world, tmp_path / "run", f"grouping.method={method}")
    assert message.startswith(f"record {bad.id!r}: the image does not decode (")


def test_a_test_image_is_looked_at_too(images: World, tmp_path: Path) -> None:
    from tiny_world import Row, write_rows

    bad = Row("x0", "c0", 0, b"not an image")
    write_rows(tmp_path / "other", [bad], "image")
    message = refused(images, tmp_path / "run", f"data.test={tmp_path / 'other' / 'test.parquet'}")
    assert message.startswith("record 'x0': the image does not decode")


def test_a_text_that_is_too_long(texts: World, tmp_path: Path) -> None:
    bad = texts.rows[7]
    world = texts.instead(bad, content=" ".join(["w1"] * 30))
    assert refused(world, tmp_path / "run").startswith(f"record {bad.id!r}: 32 tokens are more than 20;")
    run = world.config("model.too_long=cut", "grouping.groups=1")
    assert len(trained(tmp_path / "cut", run)) == 1


def test_a_group_without_any_record(images: World, tmp_path: Path) -> None:
    inside = images.inside(prepare(images.config()), 1)
    assert refused(images.without(inside), tmp_path / "run").startswith("group 1 has no record;")


def test_a_label_beyond_those_there_are(images: World, tmp_path: Path) -> None:
    bad = images.rows[7]
    message = refused(images.instead(bad, label=3), tmp_path / "run")
    assert repr(bad.id) in message
    assert "from 0 to 2" in message


def test_progress_of_the_check_ends_at_one(images: World) -> None:
    shares: list[float] = []
    prepare(images.config()).check_contents(shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_description_says_what_is_held_and_shows_none_of_it(images: World) -> None:
    prepared = prepare(images.config())
    description = describe(prepared)
    assert [sum(entry.records) for entry in description.clients] == [12, 12, 12, 12]
    assert description.labels == 3
    assert not any(row.id in description.to_text() for row in images.rows)
    assert not any(row.id in repr(prepared) for row in images.rows)


def test_another_profile_or_backbone_gives_other_keys(images: World, tmp_path: Path) -> None:
    from tiny_world import save_models

    from fedsgt.stack import profile

    save_models(tmp_path, seed=6)
    known = set(keys(images).values())
    assert not known & set(keys(images, f"model.backbone={tmp_path / 'vit'}").values())
    with pytest.MonkeyPatch.context() as patch:
        real = profile.describe
        patch.setattr(profile, "describe", lambda device: {**real(device), "mkl": "OTHER"})
        assert not known & set(keys(images).values())
    assert known == set(keys(images).values())


def test_the_order_of_groups_is_in_the_key(images: World) -> None:
    found = keys(images, "grouping.groups=2")
    assert found[(0, 1)] != found[(1, 0)]
    assert len(set(found.values())) == 4
