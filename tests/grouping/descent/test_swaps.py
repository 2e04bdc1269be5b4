"""An exchange of two slices changes the objective by as much as was predicted."""

import numpy as np
import pytest

from fedsgt.grouping.descent import swaps
from fedsgt.grouping.descent.swaps import ALL, Swaps
from fedsgt.grouping.problem import read_problem
from fedsgt.grouping.result import deviation


@pytest.mark.parametrize("in_matrix", [3000, 0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_predicted_changes_are_what_exchanging_does(
    monkeypatch: pytest.MonkeyPatch, in_matrix: int, sign: float
) -> None:
    monkeypatch.setattr(swaps, "MOST_IN_MATRIX", in_matrix)
    rng = np.random.default_rng(0)
    problem = read_problem([3, 4, 4], 3, [2, 2, None])
    vectors, group_of = rng.random((11, 2)) + 5.0, rng.permutation([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    state = Swaps(problem, vectors, group_of, sign)
    for _ in range(30):
        first, second = rng.integers(11, size=2).tolist()
        before = sign * deviation(state.group_of, vectors, 3)
        change = state.changes(np.array([first]), np.array([second]))[0, 0]
        assert state.changes(ALL, ALL)[first, second] == pytest.approx(change)
        state.swap(first, second)
        assert state.value() == pytest.approx(sign * deviation(state.group_of, vectors, 3))
        assert state.value() - before == pytest.approx(change)


def test_predicted_limits_are_what_exchanging_does() -> None:
    rng = np.random.default_rng(1)
    problem = read_problem([3, 4, 4], 4, [2, 2, None])
    state = Swaps(problem, rng.random((11, 2)), rng.permutation([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]))
    for _ in range(60):
        first, second = rng.integers(11, size=2).tolist()
        clients = problem.client_of[[first, second]]
        if clients[0] == clients[1]:
            continue
        predicted = state.over_after(np.array([first]), np.array([second]))[0, 0]
        state.swap(first, second)
        excess = np.maximum(problem.spread(state.group_of) - problem.limits, 0)
        assert (state.over() == excess).all()
        assert predicted == excess[clients].sum()
