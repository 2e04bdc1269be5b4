"""The files of deleted images go, and no other file does, whatever an id or a link says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedsgt.data.sources.remove_images import Removal, remove_images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of images beside somebody else's."""
    for name in ("mine/cat/1.png", "mine/cat/2.png", "mine/dog/1.png", "theirs/cat/1.png"):
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(name.encode())
    return tmp_path / "mine"


def files(folder: Path) -> list[str]:
    """Return all names below the folder's parent; links are not followed."""
    found = sorted(folder.parent.rglob("*"))
    return [str(path.relative_to(folder.parent)) for path in found if path.is_symlink() or path.is_file()]


def test_the_deleted_images_go_and_all_others_stay(folder: Path) -> None:
    assert remove_images(folder, ["cat/1.png", "dog/1.png"]) == Removal(removed=2)
    assert files(folder) == ["mine/cat/2.png", "theirs/cat/1.png"]
    assert (folder / "dog").is_dir(), "the owner's folders stay"


def test_an_image_that_is_gone_is_no_error_and_not_counted(folder: Path) -> None:
    assert remove_images(folder, ["cat/1.png"]) == Removal(removed=1)
    assert remove_images(folder, ["cat/1.png", "bird/1.png"]) == Removal()
    assert remove_images(folder / "nowhere", ["cat/1.png"]) == Removal()


@pytest.mark.parametrize(
    "record",
    ["../theirs/cat/1.png", "cat/../../theirs/cat/1.png", "cat/../dog/1.png", "cat//2.png", "cat/./2.png"],
)
def test_an_id_never_leads_out_of_the_folder_nor_to_another_id(folder: Path, record: str) -> None:
    before = files(folder)
    assert remove_images(folder, [record]) == Removal(left=1, reason="an id that is no path in the folder")
    assert files(folder) == before


@pytest.mark.parametrize("record", ["", "/", ".", "..", "cat/", "a\0b", "cat"])
def test_what_names_no_image_removes_nothing(folder: Path, record: str) -> None:
    before = files(folder)
    assert remove_images(folder, [record]).left == 1
    assert files(folder) == before


def test_an_absolute_path_is_no_id(folder: Path) -> None:
    before = files(folder)
    assert remove_images(folder, [str(folder / "cat" / "1.png")]).left == 1
    assert files(folder) == before


def test_links_are_not_followed_and_not_removed(folder: Path) -> None:
    theirs = folder.parent / "theirs"
    (folder / "cat" / "3.png").symlink_to(theirs / "cat" / "1.png")
    (folder / "bird").symlink_to(theirs / "cat")
    before = files(folder)
    image, inside = remove_images(folder, ["cat/3.png"]), remove_images(folder, ["bird/1.png"])
    assert image == Removal(left=1, reason="links, and what else is no plain file, are not removed")
    assert inside == Removal(left=1, reason="images in a folder that is a link are not removed")
    assert files(folder) == before


def test_one_that_cannot_be_removed_keeps_no_other(folder: Path) -> None:
    (folder / "cat" / "0.png").symlink_to("nowhere")
    found = remove_images(folder, ["cat/0.png", "cat/1.png", "dog/1.png"])
    assert (found.removed, found.left) == (2, 1)
    assert files(folder) == ["mine/cat/0.png", "mine/cat/2.png", "theirs/cat/1.png"]


def test_reasons_name_no_image(folder: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may remove files anywhere")
    (folder / "cat").chmod(0o500)
    found = remove_images(folder, ["cat/1.png"])
    (folder / "cat").chmod(0o700)
    assert (found.left, found.reason) == (1, "Permission denied")


def test_other_names_of_a_removed_file_are_counted(folder: Path) -> None:
    os.link(folder / "cat" / "1.png", folder.parent / "copy.png")
    assert remove_images(folder, ["cat/1.png"]) == Removal(removed=1, other_links=1)
    assert (folder.parent / "copy.png").exists()
