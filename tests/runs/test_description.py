"""A run's description: read as it was written, compared in words, and without any data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_world import World, started

from fedsgt.build.prepare import describe, prepare
from fedsgt.errors import InputError
from fedsgt.runs.description import Description
from fedsgt.runs.folder import open_run


def test_a_changed_description_works_everything_out_anew(images: World) -> None:
    first = describe(prepare(images.config()))
    # Each of these is worked out once and kept; the copy below must not inherit any of them.
    assert [len(groups) for groups in first.groups_of] == [len(client.slices) for client in first.clients]
    assert set(first.keys) == {tuple(entry.groups) for entry in first.modules}
    assert set(first.group_fingerprints) == set(range(first.groups))
    assert first.depths_before({0}).tolist() == [0, 1, 2]
    orders = [order[:1] for order in first.sequences]
    modules = [entry for entry in first.modules if len(entry.groups) == 1]
    again = first.model_copy(
        update={"sequences": orders, "modules": modules, "group_of": [0, *first.group_of[1:]]}
    )
    assert again == Description.read(again.to_text(), "text")
    assert again.groups_of[0][0] == 0
    assert set(again.keys) == {(0,), (1,), (2,)}
    assert set(again.group_fingerprints) == {0, 1, 2}
    assert again.depths_before({0}).tolist() == [0, 1, 1]


def test_the_description_holds_no_data(images: World, tmp_path: Path) -> None:
    _, folder = started(tmp_path / "run", images.config())
    text = (folder.path / "run.json").read_text() + (folder.path / "run.toml").read_text()
    assert not any(row.id in text for row in images.rows)


DIFFERENCES: dict[str, tuple[dict[str, Any], str]] = {
    "config_hash": ({"config_hash": "0" * 64}, "config_hash changed"),
    "labels": ({"labels": 9}, "labels changed"),
    "grouping": ({"group_of": [0] * 8}, "group_of changed"),
    "clients first": ({"clients": [], "backbone": "x"}, "the backbone's weights changed"),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_whatever_differs_is_said(images: World, name: str) -> None:
    ours = describe(prepare(images.config()))
    changes, said = DIFFERENCES[name]
    assert ours.difference(ours.model_copy(update=changes)) == said
    assert ours.difference(ours.model_copy()) is None


def test_a_damaged_description(images: World, tmp_path: Path) -> None:
    _, folder = started(tmp_path / "run", images.config())
    file = folder.path / "run.json"
    for text in ("", "{}", file.read_text().replace('"labels":', '"labals":')):
        file.write_text(text)
        with pytest.raises(InputError, match=r"^[^\n]*run.json: not a run's description [^\n]*$"):
            open_run(folder.path)
