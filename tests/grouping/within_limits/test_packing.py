"""Packing places a client exactly when there is room, and uses up small rooms first."""

from hypothesis import given
from hypothesis import strategies as st

from fedsgt.grouping.within_limits import packing


@given(
    rooms=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    size=st.integers(1, 30),
    parts=st.integers(1, 4),
)
def test_a_client_is_placed_exactly_when_there_is_room(rooms: list[int], size: int, parts: int) -> None:
    places = packing.FreeRoom(enumerate(rooms)).place(size, parts)
    if size > sum(sorted(rooms)[-parts:]):
        assert places == []
        return
    assert len(places) <= parts
    assert len({group for group, _ in places}) == len(places)
    assert sum(count for _, count in places) == size
    assert all(0 < count <= rooms[group] for group, count in places)


def test_small_rooms_are_used_up_first() -> None:
    free = packing.FreeRoom([(0, 4), (1, 1), (2, 2)])
    assert free.place(2, 2) == [(2, 2)]
    assert free.place(4, 2) == [(0, 4)]
    free = packing.FreeRoom([(0, 4), (1, 1), (2, 2)])
    assert free.place(3, 2) == [(1, 1), (2, 2)]
    assert free.place(3, 2) == [(0, 3)]
