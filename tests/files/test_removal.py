"""Folders are removed while others write into them, and links are not followed."""

from __future__ import annotations

import threading
from pathlib import Path

from fedsgt.files.removal import bury_folder, remove_tree


def test_a_tree_goes_and_what_its_links_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    tree = tmp_path / "tree"
    (tree / "deep" / "deeper").mkdir(parents=True)
    (tree / "deep" / "file").write_text("data")
    (tree / "link").symlink_to(tmp_path / "mine")
    (tmp_path / "top").symlink_to(tmp_path / "mine")
    for place in (tree, tmp_path / "top", tmp_path / "missing", tmp_path / "mine" / "file" / "below"):
        remove_tree(place)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "file"]


def test_a_buried_folder_cannot_be_made_again_by_who_writes_into_it(tmp_path: Path) -> None:
    place, stop, made = tmp_path / "above" / "place", threading.Event(), list[int]()

    def write() -> None:
        while not stop.is_set():
            try:
                (place / "deep").mkdir(parents=True, exist_ok=True)
                (place / "deep" / f"{len(made)}").write_text("data")
                made.append(1)
            except OSError:
                made.append(0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            while not any(made[-2:]):
                pass
            bury_folder(place)
            before = len(made)
            while len(made) < before + 3:
                pass
            assert place.is_file()
            assert [path.name for path in place.parent.iterdir()] == ["place"]
            place.unlink()
    finally:
        stop.set()
        writer.join()


def test_what_is_not_there_is_buried_too(tmp_path: Path) -> None:
    bury_folder(tmp_path / "above" / "place")
    bury_folder(tmp_path / "above" / "place")
    assert (tmp_path / "above" / "place").read_bytes() == b""
