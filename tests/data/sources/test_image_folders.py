"""Folders of images by label: paths are ids, folders are labels."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from dataset_columns import contents_of, ids_of
from record_files import write_images

from fedsgt.data import Columns, load_dataset
from fedsgt.data.sources.image_folders import read_image_folder
from fedsgt.errors import InputError

IMAGES = Columns(("image",), images=True)
NAMES = ["dog", "cat", "bird"]


def test_the_path_is_the_id_and_the_folder_is_the_label(tmp_path: Path) -> None:
    images = {"cat/2.png": b"c2", "cat/10.JPG": b"c10", "dog/a b.webp": b"d", "cat/\u00e4.gif": b"ae"}
    write_images(tmp_path, images | {"cat/.hidden.png": b"", "cat/Thumbs.db": b"", ".git/x.png": b""})
    found = load_dataset(str(tmp_path), IMAGES, label_names=NAMES)
    assert ids_of(found.records) == ("cat/10.JPG", "cat/2.png", "cat/\u00e4.gif", "dog/a b.webp")
    assert contents_of(found.records) == ((b"c10",), (b"c2",), (b"ae",), (b"d",))
    assert found.labels == (1, 1, 1, 0)
    # A label without images is one all the same: names are declared and never collected.
    assert (found.label_count, found.label_names) == (3, ("dog", "cat", "bird"))


@pytest.mark.parametrize("part", ["test", "validation", "val"])
def test_parts_have_ids_of_their_own(tmp_path: Path, part: str) -> None:
    write_images(tmp_path, {"train/cat/1.png": b"1", "train/dog/1.png": b"2", f"{part}/cat/1.png": b"3"})
    train = load_dataset(str(tmp_path), IMAGES, label_names=NAMES, test_share=0.5)
    assert ids_of(train.records) == ("cat/1.png", "dog/1.png"), "nothing is split off"
    test = load_dataset(str(tmp_path), IMAGES, split="test", label_names=NAMES, test_share=0.5)
    assert [(record.id, record.content) for record in test.records] == [("cat/1.png", (b"3",))]
    # The parts may also be given one by one.
    again = load_dataset(str(tmp_path / "train"), IMAGES, label_names=NAMES)
    assert again.records == train.records
    own = load_dataset("digits", IMAGES, split="test", test=str(tmp_path / part), label_names=NAMES)
    assert own.records == test.records


def test_folders_may_be_called_by_numbers(tmp_path: Path) -> None:
    write_images(tmp_path, {"0/a.png": b"a", "2/b.png": b"b"})
    assert load_dataset(str(tmp_path), IMAGES, labels=3).labels == (0, 2)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    source = str(write_images(tmp_path, {"cat/1.png": b"1", "dog/1.png": b"2"}))
    with pytest.raises(
        InputError, match=r"record 'dog/1\.png' has the label 'dog'; allowed: 'cat', 'bird' \(da"
    ):
        load_dataset(source, IMAGES, label_names=["cat", "bird"])
    with pytest.raises(InputError, match=r"nothing declares how many labels there are; .* data\.label_names"):
        load_dataset(source, IMAGES)
    for columns, problem in (
        (replace(IMAGES, client="client"), r"no owners; allowed for data\.partition: iid or dirichlet"),
        (replace(IMAGES, id="#row"), r"ids of its images are their paths; leave data\.id_column out"),
        (replace(IMAGES, inputs=("a", "b")), r"a record is one image; leave data\.input_columns out"),
        (replace(IMAGES, images=False), r'it is a folder of images; allowed for model\.task: "image"'),
    ):
        with pytest.raises(InputError, match=rf"^{source}: .*{problem}"):
            load_dataset(source, columns, label_names=NAMES)
    (tmp_path / "cat/small").mkdir()
    with pytest.raises(InputError, match=rf"^{source}/cat/small: a folder inside a label's folder; allowed"):
        load_dataset(source, IMAGES, label_names=NAMES)


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    write_images(tmp_path, {"cat/1.png": b"1"})
    with open(os.fsencode(tmp_path / "cat") + b"/\xff.png", "wb"):
        pass
    with pytest.raises(InputError, match=r"the name of 'cat/\\udcff\.png' is not in UTF-8; rename it$"):
        read_image_folder(tmp_path)


def test_an_image_that_went_meanwhile_is_named(tmp_path: Path) -> None:
    write_images(tmp_path, {"cat/1.png": b"1"})
    table = read_image_folder(tmp_path)
    (tmp_path / "cat/1.png").unlink()
    with pytest.raises(InputError, match=r"image 'cat/1\.png' does not exist$"):
        table.contents("image")


def test_images_are_read_once_and_only_if_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_images(tmp_path, {f"cat/{i}.png": b"%d" % i for i in range(40)})
    opened: list[str] = []
    real = os.open

    def counted(path: str, flags: int) -> int:
        opened.append(path)
        return real(path, flags)

    monkeypatch.setattr(os, "open", counted)
    parts = [load_dataset(str(tmp_path), IMAGES, split="train", label_names=NAMES, test_share=0.5)]
    parts.append(load_dataset(str(tmp_path), IMAGES, split="test", label_names=NAMES, test_share=0.5))
    assert sum(map(len, parts)) == len(opened) == len(set(opened)) == 40


def test_a_folder_without_images_is_what_a_deletion_leaves(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    assert load_dataset(str(tmp_path), IMAGES, label_names=NAMES).records == ()
