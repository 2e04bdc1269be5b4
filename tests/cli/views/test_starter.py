"""The text of a new configuration says what was found, and loads."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from fedsgt.cli.views.starter import Sizes, found_lines, grouping_text, purpose_words, starter_text
from fedsgt.config import Config
from fedsgt.data.inspect import Found
from fedsgt.planning.purpose import Purpose, setting_for

TABLE = Found(
    format="csv",
    records=120,
    task="text",
    labels=("bad", "good"),
    inputs=("title", "body"),
    id="uid",
    label="mood",
    client="site",
    owners=(30, 50, 40),
)
PHOTOS = Found("images", 90, "image", ("cat", "dog"), test=Path("photos/test"))
SIZES = Sizes(clients=3, setting=setting_for(Purpose.BOTH, 3))


def settings(found: Found, backbone: str | None = None) -> Config:
    return Config.model_validate(tomllib.loads(starter_text("my.csv", found, SIZES, backbone)))


def test_owners_of_the_data_are_the_clients() -> None:
    config = settings(TABLE)
    assert (config.data.partition, config.data.client_column, config.data.clients) == ("given", "site", None)
    assert (config.data.id_column, config.data.label_column) == ("uid", "mood")
    assert config.data.input_columns == ["title", "body"]
    assert config.data.label_names == ["bad", "good"]
    assert (config.grouping.groups, config.grouping.slices, config.grouping.limits) == (3, 2, 2)
    assert (config.plan.kind, config.plan.passes) == ("tree", 10)
    assert config.model.task == "text"
    assert "'site': 3 owners with 30 to 50 records; each is a client" in starter_text("x", TABLE, SIZES, None)


def test_without_owners_clients_are_simulated() -> None:
    config = settings(replace(TABLE, client=None, owners=()))
    assert (config.data.partition, config.data.clients) == ("dirichlet", 3)


def test_heads_are_told_in_a_comment_that_can_be_uncommented() -> None:
    text = starter_text("x", TABLE, SIZES, None)
    assert settings(TABLE).heads.solve
    changed = text.replace("# [heads]", "[heads]").replace("# solve = false", "solve = false")
    assert not Config.model_validate(tomllib.loads(changed)).heads.solve


def test_a_folder_of_images_names_no_columns() -> None:
    text = starter_text("photos", PHOTOS, SIZES, None)
    assert not any(key in text for key in ("id_column", "label_column", "input_columns", "test_share"))
    assert "# Tested on test, the source's own part for that." in text
    assert settings(PHOTOS).model.backbone == "fedsgt/tiny-vit"


def test_numbers_are_counted_and_not_named() -> None:
    config = settings(replace(TABLE, labels=("0", "1", "2"), numbered=True))
    assert (config.data.labels, config.data.label_names) == (3, None)


def test_long_lists_go_over_several_lines() -> None:
    names = tuple(f"label number {number}" for number in range(30))
    text = starter_text("x", replace(TABLE, labels=names), SIZES, None)
    assert max(map(len, text.splitlines())) <= 130
    assert tomllib.loads(text)["data"]["label_names"] == list(names)


@pytest.mark.parametrize(("found", "word"), [(TABLE, "20% of the records"), (PHOTOS, "the part test")])
def test_what_was_found_is_said_in_a_few_lines(found: Found, word: str) -> None:
    lines = found_lines("my.csv", found, SIZES, "a/model")
    assert len(lines) == 9
    assert any(word in line for line in lines)
    assert lines[-1] == "  model    a/model"


@pytest.mark.parametrize("purpose", Purpose)
@pytest.mark.parametrize("clients", [3, 10, 50])
def test_the_settings_of_a_purpose_are_written_as_they_are(purpose: Purpose, clients: int) -> None:
    setting = setting_for(purpose, clients)
    written = Config.model_validate(tomllib.loads(grouping_text(setting))).grouping
    assert (written.groups, written.slices) == (setting.groups, setting.slices)
    assert (written.limits, written.seed) == (setting.limits, setting.seed)


def test_what_a_setting_withstands_is_said_in_a_line() -> None:
    assert purpose_words(setting_for(Purpose.BOTH, 10)) == (
        "deletions of records and of whole clients: no module is live after about 29.3 deletions of records "
        "or slices, or after about 7.7 of 10 clients left whole"
    )
