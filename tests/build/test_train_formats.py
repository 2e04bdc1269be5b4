"""Runs of the same records end with the same modules, whatever format the records are in."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from record_files import write_as, write_images
from tiny_world import LABELS, Quiet, Row, World, made, trained

from fedsgt.build.train import train
from fedsgt.config import Config
from fedsgt.data.dataset import is_kept_for_test
from fedsgt.engine.events import Note
from fedsgt.errors import InputError
from fedsgt.runs.folder import open_run
from fedsgt.runs.register import Registers
from fedsgt.serving.evaluation import evaluate
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

NAMES = ["two", "zero", "one"]
TEXT_NAMES = '["zero", "one", "two"]'


def image_id(row: Row) -> str:
    return f"{NAMES[row.label]}/{row.id}.pgm"


def image_rows(rows: Sequence[Row], paths: bool) -> list[Mapping[str, Any]]:
    return [
        {"id": image_id(row), "label": row.label, "image": f"files/{row.id}.pgm" if paths else row.content}
        for row in rows
    ]


@pytest.fixture(scope="module")
def image_sources(images: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same images as bytes in a table, as files that tables name, and as files in folders by label."""
    folder, rows = tmp_path_factory.mktemp("sources"), images.rows
    content = {row: row.content for row in rows if isinstance(row.content, bytes)}
    write_images(folder, {f"files/{row.id}.pgm": data for row, data in content.items()})
    by_path, forms = image_rows(rows, paths=True), ("csv", "jsonl", "parquet")
    return {
        "bytes": write_as("parquet", folder, image_rows(rows, paths=False), "bytes"),
        "folder": write_images(folder / "images", {image_id(row): data for row, data in content.items()}),
        **{form: write_as(form, folder, by_path, "paths") for form in forms},
    }


def image_config(images: World, source: Path, *more: str) -> Config:
    given = ["data.partition=iid", f"data.source={source}", "data.labels=", f"data.label_names={NAMES}"]
    return images.config(*given, *more)


def test_images_in_tables_by_paths_and_in_folders_give_the_same_modules(
    images: World, image_sources: dict[str, Path], tmp_path: Path
) -> None:
    found = {
        name: trained(tmp_path / name, image_config(images, source)) for name, source in image_sources.items()
    }
    assert all(modules == found["bytes"] for modules in found.values())
    described = open_run(tmp_path / "folder").description
    assert (described.labels, described.label_names) == (LABELS, NAMES)


@pytest.fixture(scope="module")
def text_sources(texts: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same texts with labels as texts and as numbers."""
    folder, names = tmp_path_factory.mktemp("texts"), ["zero", "one", "two"]
    plain = [
        {"id": row.id, "sentence": row.content, "label": names[row.label], "client": row.client}
        for row in texts.rows
    ]
    numbers = [{**line, "label": row.label} for line, row in zip(plain, texts.rows, strict=True)]
    sources = {form: write_as(form, folder, plain) for form in ("csv", "jsonl", "parquet")}
    return sources | {"numbers": write_as("csv", folder, numbers, "numbers")}


def text_config(texts: World, source: Path, *more: str) -> Config:
    names = f"data.label_names={TEXT_NAMES}"
    return texts.config(f"data.source={source}", "data.clients=", "data.labels=", names, *more)


def test_texts_in_all_formats_give_the_same_modules_and_the_data_tell_the_clients(
    texts: World, text_sources: dict[str, Path], tmp_path: Path
) -> None:
    found = {
        name: trained(tmp_path / name, text_config(texts, source)) for name, source in text_sources.items()
    }
    # Without names, numbers are labels as before.
    plain = texts.config(f"data.source={text_sources['numbers']}")
    found["plain"] = trained(tmp_path / "plain", plain)
    assert all(modules == found["parquet"] for modules in found.values())
    stored = tomllib.loads((tmp_path / "csv/run.toml").read_text())["data"]
    assert (stored["clients"], stored["test_share"]) == (4, 0.2)


def test_a_run_is_continued_by_settings_that_leave_out_what_the_data_told(
    texts: World, text_sources: dict[str, Path], tmp_path: Path
) -> None:
    config, quiet = text_config(texts, text_sources["csv"]), Quiet()
    before = made(train(config, tmp_path / "run", Quiet()))
    assert made(train(config, tmp_path / "run", quiet)) == before
    assert (quiet.modules, quiet.rounds) == ([], [])
    explicit = text_config(texts, text_sources["csv"], "data.clients=4")
    assert made(train(explicit, tmp_path / "run", Quiet())) == before
    with pytest.raises(InputError, match=r"holds a run of another configuration \(data\.clients: 4 -> 5\)"):
        train(text_config(texts, text_sources["csv"], "data.clients=5"), tmp_path / "run", Quiet())
    # Simulated clients are ten unless it is said otherwise, whatever a run has.
    simulated = ("data.partition=iid", "data.clients=3")
    train(text_config(texts, text_sources["csv"], *simulated), tmp_path / "simulated", Quiet())
    with pytest.raises(InputError, match=r"\(data\.clients: 3 -> 10\)"):
        train(text_config(texts, text_sources["csv"], "data.partition=iid"), tmp_path / "simulated", Quiet())


def test_the_part_that_is_split_off_is_said_tested_on_and_never_trained_on(
    texts: World, text_sources: dict[str, Path], tmp_path: Path
) -> None:
    quiet = Quiet()
    folder = train(text_config(texts, text_sources["csv"]), tmp_path / "run", quiet)
    kept = {row.id for row in texts.rows if is_kept_for_test(row.id, 0.2)}
    (note,) = [event.text for event in quiet.events if isinstance(event, Note)]
    assert note == (
        f"no test part: 20 % of the records ({len(kept)}), chosen by a hash of their ids, are kept for "
        "testing and never trained on (data.test_share)"
    )
    registers = Registers(folder.path, folder.description)
    ids = {row.id for row in texts.rows}
    assert {name for name in ids for number in range(4) if name in (registers.of(number) or ())} == ids - kept
    assert evaluate(folder).records == len(kept)
    again = Quiet()
    train(text_config(texts, text_sources["csv"]), tmp_path / "run", again)
    assert not [event for event in again.events if isinstance(event, Note)]
    row = next(row for row in texts.rows if row.id in kept)
    with pytest.raises(InputError, match="never registered a record"):
        unlearn(folder, [Deletion(row.client, records=(row.id,))])
    # A run whose source has a test part says nothing, and never keeps records of another part for testing.
    own = Quiet()
    train(texts.config(), tmp_path / "own", own)
    assert not [event for event in own.events if isinstance(event, Note)]
    assert tomllib.loads((tmp_path / "own/run.toml").read_text())["data"]["test_share"] == 0
