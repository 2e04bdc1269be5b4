"""Images that a file of records names by path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from record_files import write_as

from fedsgt.data import Columns, load_dataset
from fedsgt.data.sources.image_paths import image_bytes, read_image
from fedsgt.errors import InputError

IMAGES = Columns(("image",), images=True)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_paths_start_at_the_folder_of_the_file(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data/cats").mkdir(parents=True)
    (tmp_path / "data/cats/1.png").write_bytes(b"one")
    (tmp_path / "data/2.png").write_bytes(b"two")
    paths = ["cats/1.png", str(tmp_path / "data/2.png"), "cats/../2.png"]
    rows = [{"id": str(i), "label": 0, "image": path} for i, path in enumerate(paths)]
    file = write_as(form, tmp_path / "data", rows)
    monkeypatch.chdir(tmp_path)
    for source in (str(file), os.path.relpath(file)):
        found = load_dataset(source, IMAGES, labels=2)
        assert [record.content for record in found.records] == [(b"one",), (b"two",), (b"two",)]
    # Where texts are wanted, a path is one.
    found = load_dataset(str(file), Columns(("image",)), labels=2)
    assert found.records[0].content == ("cats/1.png",)


def test_bytes_are_images_themselves(tmp_path: Path) -> None:
    rows = [{"id": "a", "label": 0, "image": b"image"}]
    assert load_dataset(str(write_as("parquet", tmp_path, rows)), IMAGES, labels=2).records[0].content == (
        b"image",
    )


@pytest.mark.parametrize(
    "text", ["", "..", "../x.png", "a/../../x.png", "/etc/passwd", "a\0b", "../data-2/x.png", "."]
)
def test_a_path_leads_to_no_other_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "x.png").write_bytes(b"secret")
    with pytest.raises(
        InputError, match=r"^record 'r': .*(in the folder of the file|cannot be read \(Is a dir)"
    ):
        read_image(text, tmp_path / "data", "record 'r'")


def test_a_link_that_its_owner_made_is_followed(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "big/x.png").write_bytes(b"image")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/images").symlink_to(tmp_path / "big")
    assert read_image("images/x.png", tmp_path / "data", "r") == b"image"


def test_a_missing_image_is_named_with_its_record(tmp_path: Path) -> None:
    file = write_as("csv", tmp_path, [{"id": "r7", "label": 0, "image": "cats/1.png"}])
    with pytest.raises(InputError) as caught:
        load_dataset(str(file), IMAGES, labels=2)
    assert str(caught.value) == f"{file}: record 'r7': its image 'cats/1.png' does not exist"


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(InputError, match="it is no file"):
        image_bytes(str(tmp_path / "pipe.png"), "it")
    with pytest.raises(InputError, match=r"it cannot be read \(Is a directory\)"):
        image_bytes(str(tmp_path), "it")
    with pytest.raises(InputError, match=r"it cannot be read \(File name too long\)"):
        image_bytes(str(tmp_path / ("x" * 5000)), "it")
