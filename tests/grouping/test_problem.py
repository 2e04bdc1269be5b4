"""Bad input of a grouping is named in one line, with the client."""

import pytest

from fedsgt.errors import InputError
from fedsgt.grouping import make


def one_line(error: pytest.ExceptionInfo[InputError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("slices", "groups", "limits", "message"),
    [
        ([2, 2], 5, None, "groups: 5 is not between 1 and the number of slices, 4"),
        ([2, 2], 0, None, "groups: 0 is not between 1 and the number of slices, 4"),
        ([2, 2], 1.5, None, "groups: 1.5 is not a whole number"),
        ([2, 0], 1, None, "client 1: 0 slices, but each client needs at least 1"),
        ([], 1, None, "slices: shape (0,) is not one number of slices per client"),
        ([1.5], 1, None, "slices: type float64 is not whole numbers"),
        ([2, 2], 2, 0, "client 0: limit 0 is not a whole number of at least 1"),
        ([2, 2], 2, [None, -1], "client 1: limit -1 is not a whole number of at least 1"),
        ([2, 2], 2, 1.5, "client 0: limit 1.5 is not a whole number of at least 1"),
        ([2, 2], 2, [1], "limits: 1 given for 2 clients, one per client is needed"),
        (
            [5, 5, 5, 12, 23],
            10,
            [None, None, None, 2, None],
            "client 3: 12 slices do not fit into 2 groups of at most 5; raise its limit",
        ),
        ([3, 1], 2, 1, "client 0: 3 slices do not fit into 1 group of at most 2; raise its limit"),
    ],
)
def test_bad_input_is_named_in_one_line(slices: list[int], groups: int, limits: int, message: str) -> None:
    with pytest.raises(InputError) as error:
        make("random", slices, groups, limits=limits)
    assert one_line(error) == message


@pytest.mark.parametrize(
    ("slices", "groups", "limits", "message"),
    [
        ([2, 0], 1, None, "client south: 0 slices"),
        ([2, 2], 2, [None, -1], "client south: limit -1"),
        ([1, 3], 2, 1, "client south: 3 slices do not fit"),
        ([2, 2, 2], 2, 1, "client (north|south|east): 2 slices in at most 1 of 2 groups: there is no way"),
    ],
)
def test_errors_name_the_client(slices: list[int], groups: int, limits: int, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        make("random", slices, groups, limits=limits, names=["north", "south", "east"][: len(slices)])
