"""Withdrawn records leave a client's own csv or JSON-lines file, or its folder of images."""

from __future__ import annotations

from pathlib import Path

import pytest
from dataset_columns import ids_of
from owner_files import KINDS, read_table, write_images, write_table
from remote_world import LABELS, Federation, make_federation

from fedsgt.federation.client.records import ClientRecords
from fedsgt.federation.settings import CLIENT_FILE

ROWS = [{"id": f"a{n:02d}", "label": n % LABELS, "sentence": f"text {n} of a"} for n in range(30)]


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return make_federation(tmp_path / "fed")


def with_source(federation: Federation, source: str, *more: str) -> ClientRecords:
    """Return client a with another source, and more lines in the section of its data."""
    place = federation.folder / "a" / CLIENT_FILE
    text = place.read_text().replace('source = "records.parquet"', "\n".join([f'source = "{source}"', *more]))
    assert f'source = "{source}"' in text
    place.write_text(text)
    return federation.own("a")


def withdraw(own: ClientRecords, *ids: str) -> str:
    hashes = [own.hash_of(name) for name in ids]
    return own.withdraw(hashes, own.stale(hashes))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_rows_of_text_files_are_taken_out(federation: Federation, suffix: str) -> None:
    file = write_table(federation.folder / "a" / f"notes{suffix}", ROWS)
    own, lines = with_source(federation, file.name), file.read_bytes().splitlines(keepends=True)
    told = f"notes{suffix}: rewritten without the withdrawn rows"
    assert own.told_of_file() == withdraw(own, "a03", "a07") == told
    assert file.read_bytes() == b"".join(line for line in lines if not (b"a03" in line or b"a07" in line))
    assert len(ids_of(own.records(LABELS))) == 28
    assert withdraw(own, *(f"a{n:02d}" for n in range(30))) == told
    assert read_table(file) == []
    assert own.records(LABELS) == ()


def test_images_are_removed_from_their_folder(federation: Federation) -> None:
    photos = federation.folder / "a" / "photos"
    names = [f"{KINDS[n % LABELS]}/{n:02d}.pgm" for n in range(12)]
    write_images(photos, dict.fromkeys(names, b"P5 1 1 255\n0"))
    own = with_source(federation, "photos", f"label_names = {list(KINDS)}")
    assert set(ids_of(own.records(LABELS))) == set(names)
    assert own.told_of_file() == withdraw(own, names[3]) == "photos: the withdrawn images are removed"
    assert {str(path.relative_to(photos)) for path in photos.rglob("*.pgm")} == {*names} - {names[3]}
    assert set(ids_of(own.records(LABELS))) == {*names} - {names[3]}


def test_an_image_that_is_a_link_stays_and_is_told(federation: Federation) -> None:
    photos = federation.folder / "a" / "photos"
    write_images(photos, {f"{kind}/{n}.pgm": b"P5 1 1 255\n0" for kind in KINDS for n in range(3)})
    theirs = (photos / "cat" / "0.pgm").rename(federation.folder / "theirs.pgm")
    (photos / "cat" / "0.pgm").symlink_to(theirs)
    own = with_source(federation, "photos", f"label_names = {list(KINDS)}")
    told = withdraw(own, "cat/0.pgm", "cat/1.pgm")
    assert told.startswith("photos: the withdrawn images are removed, but links")
    assert theirs.exists()
    assert not (photos / "cat" / "1.pgm").exists()
    assert "cat/0.pgm" not in ids_of(own.records(LABELS)), "left out all the same"


def test_paths_of_images_go_and_the_images_stay(federation: Federation) -> None:
    own_folder = federation.folder / "a"
    write_images(own_folder, {f"scans/{n}.pgm": b"P5 1 1 255\n0" for n in range(6)})
    rows = [{"id": f"a{n}", "label": n % LABELS, "image": f"scans/{n}.pgm"} for n in range(6)]
    write_table(own_folder / "scans.csv", rows)
    own = with_source(federation, "scans.csv")
    kept = "the image files that its rows name are not touched"
    assert withdraw(own, "a3") == f"scans.csv: rewritten without the withdrawn rows, but {kept}"
    assert (own_folder / "scans" / "3.pgm").exists()
    assert [row["id"] for row in read_table(own_folder / "scans.csv")] == ["a0", "a1", "a2", "a4", "a5"]


def test_a_file_of_another_format_is_left_and_told(federation: Federation) -> None:
    own = with_source(federation, "digits")
    assert own.told_of_file().startswith("the source: not changed, as it is no file or folder here")
    (federation.folder / "a" / "notes.csv").write_text('id,label,sentence\na1,0,"open\n')
    place = federation.folder / "a" / CLIENT_FILE
    place.write_text(place.read_text().replace('source = "digits"', 'source = "notes.csv"'))
    own = federation.own("a")
    assert withdraw(own, "a1").startswith("notes.csv: NOT rewritten (")
    assert (federation.folder / "a" / "notes.csv").read_text() == 'id,label,sentence\na1,0,"open\n'
