"""A client through deletions: only what was hit changes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.data import Client, Record, derive_salt, group_fingerprint
from fedsgt.errors import InputError


def client(count: int, slices: int = 4, name: str = "north", seed: int | str = 7) -> Client:
    records = tuple(Record(f"r{i}", (str(i),), i % 3) for i in range(count))
    return Client(name, records, slices, seed, derive_salt(0, name))


@st.composite
def deletions(draw: st.DrawFn) -> tuple[Client, set[str]]:
    one = client(draw(st.integers(0, 30)), draw(st.integers(1, 6)), seed=draw(st.integers(0, 50)))
    return one, {record.id for record in one.records if draw(st.booleans())}


@given(deletions())
def test_a_deletion_takes_those_records_and_moves_no_other(case: tuple[Client, set[str]]) -> None:
    before, gone = case
    expected = tuple(tuple(r for r in part if r.id not in gone) for part in before.cut())
    after = before.without(gone)
    assert after.cut() == expected
    assert after.slice_sizes() == tuple(map(len, expected))


@given(deletions())
def test_a_deletion_changes_the_fingerprints_of_the_slices_hit_and_no_others(
    case: tuple[Client, set[str]],
) -> None:
    before, gone = case
    hit = {index for index, part in enumerate(before.cut()) if any(record.id in gone for record in part)}
    pairs = zip(before.fingerprints(), before.without(gone).fingerprints(), strict=True)
    assert {index for index, (old, new) in enumerate(pairs) if old != new} == hit
    assert set(before.locate(gone)) == hit


@given(deletions(), st.integers(1, 3))
def test_a_group_changes_exactly_when_a_slice_of_it_does(case: tuple[Client, set[str]], groups: int) -> None:
    before, gone = case
    after, other = before.without(gone), client(9, 3, name="south")
    hit = set(before.locate(gone))
    for group in range(min(groups, before.slices)):
        members = range(group, before.slices, groups)
        old = group_fingerprint([*(before.fingerprints()[i] for i in members), *other.fingerprints()])
        new = group_fingerprint([*(after.fingerprints()[i] for i in members), *other.fingerprints()])
        assert (old != new) == bool(hit.intersection(members))


@given(deletions())
def test_locate_finds_each_id_in_its_slice(case: tuple[Client, set[str]]) -> None:
    one, wanted = case
    found = one.locate(wanted)
    assert list(found) == sorted(found)
    for index, part in enumerate(one.cut()):
        assert found.get(index, []) == [record.id for record in part if record.id in wanted]


@given(st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(random: Any) -> None:
    first = client(20)
    shuffled = list(first.records)
    random.shuffle(shuffled)
    second = Client(first.name, tuple(shuffled), first.slices, first.slicing_seed, first.salt)
    assert second == first
    assert second.cut() == first.cut()
    assert second.fingerprints() == first.fingerprints()


def test_deleting_in_steps_is_deleting_at_once() -> None:
    assert client(20).without(["r1"]).without(["r2", "r5"]) == client(20).without(["r5", "r2", "r1"])


def test_an_unknown_id_is_named_and_changes_nothing() -> None:
    one = client(5)
    before = one.fingerprints()
    problem = r"client north: no record has the id 'r9' \(1 unknown of 2\); .* 5 records$"
    with pytest.raises(InputError, match=problem):
        one.without(["r1", "r9"])
    with pytest.raises(InputError, match=problem):
        one.locate(["r1", "r9"])
    assert one == client(5)
    assert one.fingerprints() == before
    with pytest.raises(InputError, match="no record has the id 'r1'"):
        one.without(["r1"]).without(["r1"])


def test_one_text_is_not_a_list_of_ids() -> None:
    with pytest.raises(InputError, match="one text 'r1'"):
        client(5).without("r1")


def test_a_client_may_lose_everything() -> None:
    empty = client(5).without([f"r{i}" for i in range(5)])
    assert empty.slice_sizes() == (0, 0, 0, 0)
    assert empty.fingerprints() == client(0).fingerprints()


def test_clients_with_equal_records_and_salts_have_other_fingerprints() -> None:
    first = client(20)
    second = Client("south", first.records, first.slices, first.slicing_seed, first.salt)
    assert first.cut() == second.cut()
    assert not set(first.fingerprints()) & set(second.fingerprints())


def test_slices_may_differ_between_clients() -> None:
    assert [len(client(20, slices).fingerprints()) for slices in (1, 2, 5)] == [1, 2, 5]


def test_the_cut_is_made_once() -> None:
    one = client(20)
    assert one.cut() is one.cut()
    assert one.fingerprints() is one.fingerprints()


def test_a_slice_to_train_on_has_the_clients_own_records() -> None:
    """The very objects: contents are not copied on their way to a worker."""
    one = client(20)
    slices = one.training_slices()
    assert tuple(part.fingerprint for part in slices) == one.fingerprints()
    assert tuple(part.records for part in slices) == one.cut()
    left = one.without(["r1"])
    assert {id(record) for record in left.records} < {id(record) for record in one.records}
    assert repr(slices[0]) == f"Slice(fingerprint={one.fingerprints()[0]!r})"


def test_the_printed_form_shows_neither_records_nor_salt() -> None:
    shown = repr(client(3))
    assert shown == "Client(name='north', slices=4, slicing_seed=7)"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": ""}, "client name ''"),
        ({"name": "a\nb"}, "printable"),
        ({"name": 3}, "client name 3"),
        ({"slices": 0}, "slices is 0"),
        ({"slicing_seed": None}, "slicing seed is None"),
        ({"salt": b"short"}, "salt is 5 bytes"),
        ({"records": (Record("a", ("1",)), Record("a", ("2",)))}, "'a' is there twice"),
    ],
)
def test_a_bad_client_says_what_is_wrong(change: dict[str, Any], problem: str) -> None:
    fields = {"name": "c", "records": (), "slices": 2, "slicing_seed": 0, "salt": derive_salt(0, "c")}
    with pytest.raises(InputError, match=problem):
        Client(**{**fields, **change})
