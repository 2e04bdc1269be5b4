"""Bad input: one line that says what, its value, and what is allowed."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fedsgt import theory
from fedsgt.errors import InputError
from fedsgt.theory import deletion as deletion_module

THIRD = Fraction(1, 3)

Bad = tuple[Callable[[], object], str]


def anything(value: Any) -> Any:
    """A value as a caller without types may give it."""
    return value


BAD: list[Bad] = [
    (lambda: theory.deletion_rate(0, 1), "groups is 0: must be at least 1"),
    (lambda: theory.deletion_rate(3, 0), "budget is 0: must be at least 1"),
    (lambda: theory.requests_survived(-2, 3), "groups is -2: must be at least 1"),
    (lambda: theory.fedcio_deletion_rate(0), "clusters is 0: must be at least 1"),
    (lambda: theory.deletion_rate(anything(2.5), 1), "groups is 2.5: must be a whole number"),
    (lambda: theory.survival(3, 4, 1), "roots is 4: must be from 1 to 3"),
    (lambda: theory.survival(3, 0, 1), "roots is 0: must be from 1 to 3"),
    (lambda: theory.survival(3, 3, -1), "requests is -1: must be at least 0"),
    (lambda: theory.distinct_groups(3, 2, 4), "hit is 4: must be from 0 to 3"),
    (lambda: theory.distinct_groups(3, -2, 1), "requests is -2: must be at least 0"),
    (lambda: theory.span_given(3, -1), "hit is -1: must be from 0 to 3"),
    (lambda: theory.span(0, 2), "groups is 0: must be at least 1"),
    (lambda: theory.expected_live(0, 2), "groups is 0: must be at least 1"),
    (lambda: theory.expected_live(4, -1), "requests is -1: must be at least 0"),
    (lambda: theory.expected_live_offsets(4, [], 1), "offsets is empty: must hold at least one offset"),
    (lambda: theory.expected_live_offsets(0, [0], 1), "groups is 0: must be at least 1"),
    (lambda: theory.expected_live_offsets(4, [0], -1), "requests is -1: must be at least 0"),
    (
        lambda: theory.expected_live_offsets(4, anything([0, 0.5]), 1),
        "offset is 0.5: must be a whole number",
    ),
    (lambda: theory.fedcio_expected_remaining(0, 1), "clusters is 0: must be at least 1"),
    (lambda: theory.fedcio_expected_remaining(2, -1), "requests is -1: must be at least 0"),
    (lambda: theory.survival_clients(0, 1, 1, 1, 0), "clients is 0: must be at least 1"),
    (lambda: theory.survival_clients(3, 0, 1, 1, 0), "slices is 0: must be at least 1"),
    (lambda: theory.survival_clients(3, 2, 7, 1, 0), "groups is 7: must be from 1 to clients x slices = 6"),
    (lambda: theory.survival_clients(3, 2, 5, 6, 0), "roots is 6: must be from 1 to 5"),
    (lambda: theory.survival_clients(3, 2, 5, 5, 4), "requests is 4: must be from 0 to 3"),
    (lambda: theory.deletion_rate_clients(3, 2, 5, 0), "roots is 0: must be from 1 to 5"),
    (lambda: theory.fedcio_deletion_rate_clients(3, 4), "clusters is 4: must be from 1 to 3"),
    (lambda: theory.client_rounds_independent(0, 2), "groups is 0: must be at least 1"),
    (lambda: theory.client_rounds_independent(4, 0), "slices is 0: must be at least 1"),
    (lambda: theory.client_rounds_independent(4, 2, 0), "budget is 0: must be at least 1"),
    (lambda: theory.client_rounds_balanced(2, 2, 5), "groups is 5: must be from 1 to clients x slices = 4"),
    (lambda: theory.client_rounds_balanced(2, 2, 4, -1), "budget is -1: must be at least 1"),
    (lambda: theory.groups_joined_independent(4, 2, 5), "joined is 5: must be from 0 to 4"),
    (lambda: theory.groups_joined_independent(4, 0, 1), "slices is 0: must be at least 1"),
    (lambda: theory.groups_joined_balanced(2, 2, 4, -1), "joined is -1: must be from 0 to 4"),
    (lambda: theory.passes(0, 1), "groups is 0: must be at least 1"),
    (lambda: theory.passes(4, 0), "budget is 0: must be at least 1"),
    (lambda: theory.matched_budget(0, 4), "rounds is 0: must be at least 1"),
    (lambda: theory.matched_budget_passes(4, 0), "groups is 0: must be at least 1"),
    (lambda: theory.deletion_rate_weighted([THIRD, THIRD], [0]), "prior sums to 2/3: must sum to 1"),
    (lambda: theory.deletion_rate_weighted([], [0]), "prior sums to 0: must sum to 1"),
    (lambda: theory.survival_weighted([0.5, 0.25], [0], 1), "prior sums to 0.75: must sum to 1 within 1e-9"),
    (
        lambda: theory.survival_weighted([THIRD * 4, -THIRD], [0], 1),
        "prior of group 1 is -1/3: must be a number from 0 to 1",
    ),
    (
        lambda: theory.survival_weighted([math.nan, 1.0], [1], 1),
        "prior of group 0 is nan: must be a number from 0 to 1",
    ),
    (
        lambda: theory.survival_weighted(anything(["1"]), [0], 1),
        "prior of group 0 is '1': must be a number from 0 to 1",
    ),
    (lambda: theory.survival_weighted([1], [], 1), "roots is empty: must hold at least one group"),
    (lambda: theory.survival_weighted([1], [1], 1), "root is 1: must be from 0 to 0"),
    (lambda: theory.survival_weighted([1], [0], -1), "requests is -1: must be at least 0"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_named_in_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message


def test_exact_priors_get_no_tolerance() -> None:
    nearly = Fraction(1, 10**12)
    with pytest.raises(InputError, match=r"must sum to 1$"):
        theory.deletion_rate_weighted([1 - nearly, Fraction(0)], [0])
    assert theory.deletion_rate_weighted([1 - 1e-12, 0.0], [0]) == 1
    with pytest.raises(InputError, match="within 1e-9"):
        theory.deletion_rate_weighted([1 - 1e-8, 0.0], [0])


def test_too_many_different_sums_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_module, "_MOST_SUBSET_SUMS", 100)
    prior = [Fraction(2**k, 2**8 - 1) for k in range(8)]
    with pytest.raises(
        InputError, match=r"^roots is 8 groups whose priors differ: must be .* at most 100 sums$"
    ):
        theory.deletion_rate_weighted(prior, range(8))
    assert theory.deletion_rate_weighted([Fraction(1, 99)] * 99, range(99)) == theory.deletion_rate(99, 99)


def test_numpy_integers_are_whole_numbers() -> None:
    nine, thirty = anything(np.int64(9)), anything(np.int64(30))
    exact = theory.expected_live_offsets(nine, anything(np.array([0, 3])), thirty)
    assert exact == theory.expected_live_offsets(9, [0, 3], 30)
    assert isinstance(theory.expected_live(nine, 5), Fraction)
    assert theory.survival_weighted(anything(np.array([1, 0])), [0], 3) == 0
