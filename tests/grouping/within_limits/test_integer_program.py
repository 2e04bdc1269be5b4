"""The integer programmes: ways to cut a client, and what is too large to decide."""

import pytest

from fedsgt.grouping.problem import read_problem
from fedsgt.grouping.within_limits import integer_program


def test_a_client_in_very_many_groups_is_undecided_at_once() -> None:
    with pytest.raises(integer_program.Undecided):
        integer_program.solve(read_problem([3000] * 40, 2500, 2000))


def test_all_ways_to_cut() -> None:
    assert list(integer_program.cuts(6, 3, 6)) == [(4, 1, 1), (3, 2, 1), (2, 2, 2)]
    assert list(integer_program.cuts(6, 2, 3)) == [(3, 3)]
    assert list(integer_program.cuts(6, 1, 5)) == []
