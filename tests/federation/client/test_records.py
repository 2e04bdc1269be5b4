"""A client's own records: sliced in secret, and once withdrawn never offered again."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
from dataset_columns import ids_of
from pydantic import ValidationError
from record_files import write_as, write_images
from remote_world import LABELS, SLICES, Federation, make_federation, make_run

from fedsgt.data.sources.rewrite import rewrite_file
from fedsgt.errors import InputError
from fedsgt.federation.client.records import REGISTERS, ClientRecords, Enrolment
from fedsgt.federation.settings import CLIENT_FILE


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return make_federation(tmp_path / "fed")


def withdraw(own: ClientRecords, *ids: str, run: str | None = None) -> list[str]:
    """The slices that changed."""
    hashes = [own.hash_of(name) for name in ids]
    stale = own.stale(hashes, run)
    own.withdraw(hashes, stale, run)
    return stale


def test_nobody_else_can_tell_where_a_record_is(federation: Federation) -> None:
    before = federation.own("a").client("a", SLICES, LABELS)
    (federation.folder / "a" / "salt").write_bytes(bytes(range(32)))
    after = federation.own("a").client("a", SLICES, LABELS)
    assert [r.id for r in before.records] == [r.id for r in after.records]
    assert before.cut() != after.cut(), "slices depend on the salt"
    assert set(before.fingerprints()).isdisjoint(after.fingerprints())
    assert federation.own("a").salt.hex() not in repr(after)


def test_withdrawn_records_leave_the_file_and_nobody_else_moves(federation: Federation) -> None:
    own, before = federation.own("a"), federation.client("a")
    changed = withdraw(own, "a03", "a04")
    after = federation.client("a")
    assert after == before.without(["a03", "a04"])
    assert set(before.fingerprints()) - set(after.fingerprints()) == set(changed)
    assert len(federation.ids("a")) == 28
    assert not {"a03", "a04"} & set(federation.ids("a"))
    state = (federation.folder / "a" / "state" / "withdrawn.json").read_text()
    assert "a03" not in state


def test_done_twice_it_is_done_once(federation: Federation) -> None:
    own = federation.own("a")
    changed = withdraw(own, "a03")
    files = [federation.source("a"), federation.folder / "a" / "state" / "withdrawn.json"]
    stamps = [path.stat().st_mtime_ns for path in files]
    own.withdraw([own.hash_of("a03")], changed)
    assert [path.stat().st_mtime_ns for path in files] == stamps


def test_cut_short_before_the_file_was_rewritten(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = federation.own("a")
    stale = own.stale([own.hash_of("a03")])
    with monkeypatch.context() as patch:
        patch.setattr("fedsgt.federation.client.records.erase_records", _stop)
        with pytest.raises(RuntimeError):
            own.withdraw([own.hash_of("a03")], stale)
    assert "a03" in federation.ids("a")
    assert "a03" not in ids_of(own.records(LABELS)), "left out all the same"
    own.withdraw([own.hash_of("a03")], stale)
    assert "a03" not in federation.ids("a")


def _stop(*_: object) -> None:
    raise RuntimeError


def test_a_tombstone_leaves_the_file_alone(federation: Federation) -> None:
    settings = federation.folder / "a" / "client.toml"
    settings.write_text(settings.read_text().replace('"rewrite"', '"tombstone"'))
    before = federation.source("a").read_bytes()
    withdraw(federation.own("a"), "a03")
    assert federation.source("a").read_bytes() == before
    assert "a03" not in ids_of(federation.own("a").records(LABELS))


def test_kept_activations_of_changed_slices_go(federation: Federation) -> None:
    own, client = federation.own("a"), federation.client("a")
    for mark in client.fingerprints():
        (own.cache / mark).mkdir(parents=True)
        (own.cache / mark / "x.activations").write_bytes(b"hidden")
    (changed,) = withdraw(own, "a03")
    assert (own.cache / changed).is_file(), "nobody who still holds the slice writes it again"
    assert (own.cache / changed).stat().st_size == 0
    others = set(client.fingerprints()) - {changed}
    assert all((own.cache / mark / "x.activations").exists() for mark in others)


def test_withdrawn_from_one_run_it_stays_in_the_others(federation: Federation) -> None:
    other = make_run(federation, "y", slices=SLICES)
    own, first = federation.own("a"), federation.run().description.id
    assert withdraw(own, "a03", run=first) == [], "the other run still learns from that slice"
    assert "a03" not in ids_of(own.records(LABELS, first))
    assert "a03" in ids_of(own.records(LABELS, other.description.id))
    assert "a03" not in ids_of(own.records(LABELS)), "who does not say which run gets it for none"
    assert "a03" in federation.ids("a")
    withdraw(own, "a03")
    assert "a03" not in ids_of(own.records(LABELS, other.description.id))
    assert "a03" not in federation.ids("a")


def test_what_was_withdrawn_from_one_run_is_in_no_later_run(federation: Federation) -> None:
    """The person whose record it is has not agreed to new runs; the earlier ones keep what they had."""
    own, first = federation.own("a"), federation.run().description.id
    earlier = make_run(federation, "y").description.id
    withdraw(own, "a03", run=first)
    later = make_run(federation, "z").description.id
    assert "a03" not in ids_of(own.records(LABELS, later))
    assert "a03" in ids_of(own.records(LABELS, earlier))
    assert federation.client("a", "z").fingerprints() == tuple(
        federation.run("z").description.clients[0].slices
    ), "what it enrols with is what it registered"
    withdraw(own, "a04", run=earlier)
    assert "a04" in ids_of(own.records(LABELS, later)), "withdrawn from another run after this one had begun"


def test_all_of_it(federation: Federation) -> None:
    own = federation.own("a")
    withdraw(own, *federation.ids("a"))
    assert federation.ids("a") == []
    assert federation.client("a").slice_sizes() == (0,) * SLICES


def test_a_record_that_comes_back_stays_out(federation: Federation) -> None:
    whole = federation.source("a").read_bytes()
    withdraw(federation.own("a"), "a03")
    federation.source("a").write_bytes(whole)
    assert "a03" not in ids_of(federation.own("a").records(LABELS))


@pytest.mark.parametrize("name", ["state/withdrawn.json", "state/enrolments/x.json"])
def test_damaged_state_is_never_taken_for_none(federation: Federation, name: str) -> None:
    withdraw(federation.own("a"), "a03")
    (federation.folder / "a" / name).write_text('{"format": 1, "everywhere"')
    with pytest.raises(InputError, match=rf"{name}: damaged .*restore it"):
        federation.own("a").stale([federation.own("a").hash_of("a04")])


def test_the_salt_is_for_its_owner_only(federation: Federation) -> None:
    salt = federation.folder / "a" / "salt"
    os.chmod(salt, 0o644)
    with pytest.raises(InputError, match="chmod 600"):
        federation.own("a").records(LABELS)
    os.chmod(salt, 0o600)
    salt.write_bytes(b"short")
    with pytest.raises(InputError, match=r"salt: salt is 5 bytes long"):
        federation.own("a").records(LABELS)


@pytest.mark.parametrize("run", ["../../x", "", "A" * 32, "0" * 33])
def test_a_server_cannot_write_where_it_likes(run: str) -> None:
    with pytest.raises(ValidationError):
        Enrolment(run=run, name="a", slices=1, labels=2)


def test_a_record_that_left_the_file_is_still_known(federation: Federation) -> None:
    """The owner took a row out of its file: the run has learnt from it all the same."""
    own, run = federation.own("a"), federation.run().description.id
    before = federation.client("a")
    rewrite_file(federation.source("a"), "id", ["a03"])
    assert own.holds(run, "a03")
    assert not own.holds(run, "b03"), "never registered"
    fingerprint = before.fingerprints()[before.slice_of("a03")]
    (own.cache / fingerprint).mkdir(parents=True)  # activations of the slice as it was
    assert fingerprint in own.stale([own.hash_of("a03")])
    withdraw(own, "a03")
    assert not own.holds(run, "a03")


def test_rows_that_come_later_are_not_part_of_the_run(federation: Federation) -> None:
    before = federation.client("a")
    file = federation.source("a")
    rows = pq.read_table(file)
    later = rows.slice(0, 1).set_column(0, "id", pa.array(["a99"]))
    pq.write_table(pa.concat_tables([rows, later]), file)
    assert federation.client("a") == before
    assert "a99" in ids_of(federation.own("a").records(LABELS)), "a new run learns from it"


def test_an_enrolment_of_an_earlier_version_gets_a_register(federation: Federation) -> None:
    own, run = federation.own("a"), federation.run().description.id
    before = federation.client("a")
    own.files.delete(f"{REGISTERS}/{run}.json")
    assert federation.client("a") == before
    assert "a03" not in own.files.read(f"{REGISTERS}/{run}.json").decode(), "hashes only"
    rewrite_file(federation.source("a"), "id", ["a03"])
    assert own.holds(run, "a03")


def test_a_newer_state_is_refused_and_an_older_one_read(federation: Federation) -> None:
    own, run = federation.own("a"), federation.run().description.id
    name = f"state/enrolments/{run}.json"
    entry = json.loads(own.files.read(name))
    assert entry.pop("format") == 1
    own.files.write(name, json.dumps(entry).encode())
    assert [found.run for found in own.enrolments()] == [run], "files of earlier versions have no number"
    own.files.write(name, json.dumps({**entry, "format": 2}).encode())
    with pytest.raises(InputError, match="made by a newer version of fedsgt"):
        own.enrolments()


@pytest.mark.parametrize("content", [None, b"no parquet file"])
def test_without_a_readable_file_training_fails_and_activations_go(
    federation: Federation, content: bytes | None
) -> None:
    own, before = federation.own("a"), federation.client("a")
    run, file = federation.run().description.id, federation.source("a")
    for mark in before.fingerprints():
        (own.cache / mark).mkdir(parents=True)
        (own.cache / mark / "x.activations").write_bytes(b"hidden")
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    for wanted in (run, None):
        with pytest.raises(InputError, match=r"records\.parquet"):
            own.client("a", SLICES, LABELS, wanted)
    with pytest.raises(InputError, match=r"records\.parquet"):
        own.enrol(Enrolment(run="0" * 32, name="a", slices=SLICES, labels=LABELS))
    assert own.registered("0" * 32) is None, "a failed enrolment registers nothing"
    withdraw(own, "a03")
    # Nobody can tell which slice the activations are of, so that all of them go.
    assert all((own.cache / mark).is_file() for mark in before.fingerprints())


def test_registered_records_remain_until_they_are_withdrawn(federation: Federation) -> None:
    own, before = federation.own("a"), federation.client("a")
    run = federation.run().description.id
    federation.source("a").unlink()
    assert tuple(map(len, own.remaining(run))) == before.slice_sizes()
    withdraw(own, "a03")
    gone = own.hash_of("a03")
    assert gone not in own.remaining(run)[before.slice_of("a03")]
    assert sum(map(len, own.remaining(run))) == len(before.records) - 1


def set_data(federation: Federation, **values: object) -> ClientRecords:
    """Give client a other settings of its data."""
    path = federation.folder / "a" / CLIENT_FILE
    settings = tomllib.loads(path.read_text(encoding="utf-8"))
    settings["data"] |= values
    path.write_text(tomli_w.dumps(settings), encoding="utf-8")
    return federation.own("a")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_client_may_have_its_records_in_any_format(federation: Federation, form: str) -> None:
    """It takes part as with the same records in a parquet file, and all of them are for training."""
    before = federation.own("a").client("a", SLICES, LABELS)
    names = ["none", "some", "all"]
    rows = [
        {"id": record.id, "label": names[record.label or 0], "sentence": record.content[0]}
        for record in before.records
    ]
    write_as(form, federation.folder / "a", rows, "own")
    own = set_data(federation, source=f"own.{form}", label_names=names)
    assert own.client("a", SLICES, LABELS) == before
    with pytest.raises(InputError, match=r"data\.label_names has 3 names, but there are 4 labels"):
        own.client("a", SLICES, 4)


def test_a_client_may_have_images_in_folders_or_by_their_paths(federation: Federation) -> None:
    folder = federation.folder / "a"
    write_images(folder / "images", {"cat/1.png": b"one", "dog/2.png": b"two", "dog/3.png": b"three"})
    own = set_data(federation, source="images", label_names=["cat", "dog"])
    found = own.client("a", 1, 2).records
    assert [(record.id, record.label, record.content) for record in found] == [
        ("cat/1.png", 0, (b"one",)),
        ("dog/2.png", 1, (b"two",)),
        ("dog/3.png", 1, (b"three",)),
    ]
    rows = [{"id": record.id, "label": record.label, "file": f"images/{record.id}"} for record in found]
    write_as("csv", folder, rows, "own")
    own = set_data(federation, source="own.csv", input_columns=["file"], task="image")
    assert own.client("a", 1, 2).records == found
