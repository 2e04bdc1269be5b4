"""The finished grouping: its members, and Eq. 1 on it."""

import numpy as np
import pytest

from fedsgt.errors import InputError
from fedsgt.grouping import METHODS, Grouping, make, objective


@pytest.fixture
def small() -> Grouping:
    """Clients with 2, 1 and 3 slices in 2 groups."""
    return Grouping(np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 1, 0, 0, 1]), 2, "random", False)


def test_members_answer_for_a_grouping_written_by_hand(small: Grouping) -> None:
    assert (small.clients, small.slices, small.groups) == (3, 6, 2)
    assert small.members(0).tolist() == [0, 3, 4]
    assert small.slice_ids(0) == [(0, 0), (2, 0), (2, 1)]
    assert small.slice_ids(1) == [(0, 1), (1, 0), (2, 2)]
    assert small.counts().tolist() == [[1, 1], [0, 1], [2, 1]]
    assert small.group_sizes().tolist() == [3, 3]


def test_a_grouping_cannot_be_changed(small: Grouping) -> None:
    with pytest.raises(ValueError, match="read-only"):
        small.group_of[0] = 1


def test_a_grouping_keeps_its_own_copy() -> None:
    given = np.array([0, 1])
    grouping = Grouping(np.array([0, 1]), given, 2, "random", False)
    given[0] = 1
    assert grouping.group_of.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("client_of", "group_of", "problem"),
    [
        ([0, 1], [0, 2], "not between 0 and 1"),
        ([0, 1], [0, -1], "not between 0 and 1"),
        ([0, 1, 2], [0, 1], "one of each"),
        ([1, 1], [0, 1], "client by client"),
        ([0, 2], [0, 1], "client by client"),
        ([0, 1, 0], [0, 1, 1], "client by client"),
        ([], [], "one of each"),
    ],
)
def test_a_malformed_grouping_is_refused(client_of: list[int], group_of: list[int], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Grouping(np.array(client_of, dtype=int), np.array(group_of, dtype=int), 2, "random", False)


@pytest.mark.parametrize("group", [2, -1])
def test_unknown_groups_are_refused(small: Grouping, group: int) -> None:
    with pytest.raises(InputError, match=f"group: {group} is not between 0 and 1"):
        small.members(group)


def test_objective_by_hand() -> None:
    grouping = Grouping(np.array([0, 0, 1]), np.array([0, 1, 1]), 2, "random", False)
    # Global mean (1, 1); group means (0, 0) and (1.5, 1.5): 2 + 0.5.
    assert objective(grouping, [[0, 0], [3, 0], [0, 3]]) == pytest.approx(2.5)


def test_objective_refuses_an_empty_group() -> None:
    grouping = Grouping(np.array([0, 1]), np.array([0, 2]), 3, "random", False)
    with pytest.raises(InputError, match="group 1 has no slice"):
        objective(grouping, [[0.0], [1.0]])


def test_methods_say_whether_they_look_at_data() -> None:
    embeddings = np.arange(12.0).reshape(6, 2)
    looks = {
        method: make(
            method,
            [3, 3],
            2,
            embeddings=embeddings,
            clusters=["a", "b"] if method == "affinity" else None,
            updates=np.eye(2),
        )
        for method in METHODS
    }
    assert {name: made.looks_at_data for name, made in looks.items()} == {
        "random": False,
        "bac": True,
        "centered": True,
        "affinity": False,
        "updates": True,
    }
    assert all(made.method == name for name, made in looks.items())
