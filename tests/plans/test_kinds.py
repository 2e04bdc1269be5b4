"""One call for every kind of plan, and one line for every wrong input."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from fedsgt.errors import InputError
from fedsgt.plans import KINDS, NO_MODULES, kinds, make, rotations
from fedsgt.plans.tree.search import tree
from fedsgt.window import Window, groups_used, order_passes

TRAINING = [kind for kind in KINDS if kind != NO_MODULES]

SKEWED = [0.3, 0.05, 0.25, 0.15, 0.25]


@pytest.fixture(autouse=True)
def _short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "tree", partial(tree, effort=0.01))


@pytest.mark.parametrize("kind", TRAINING)
def test_every_kind_makes_a_whole_plan(kind: str) -> None:
    plan = make(kind, 4)
    assert plan.kind == kind
    assert plan.groups == 4
    assert plan.roots == (0, 1, 2, 3)
    assert max(map(len, plan.sequences)) == 4


@pytest.mark.parametrize("kind", TRAINING)
@pytest.mark.parametrize("passes", [2.5, 4, 7.5])
def test_every_kind_keeps_within_the_passes(kind: str, passes: float) -> None:
    plan = make(kind, 4, passes=passes)
    assert plan.passes <= passes
    assert max(map(len, plan.sequences)) == 4


@pytest.mark.parametrize("kind", TRAINING)
def test_every_kind_takes_a_prior(kind: str) -> None:
    plan = make(kind, 5, passes=6, prior=SKEWED)
    assert plan.groups == 5
    with pytest.raises(InputError, match=r"^prior: 4 values for 5 groups; give one for each group$"):
        make(kind, 5, prior=[0.25] * 4)


@pytest.mark.parametrize("kind", [kind for kind in TRAINING if kind != "tree"])
def test_a_budget_is_the_number_of_sequences(kind: str) -> None:
    assert len(make(kind, 5, 3).sequences) == 3


def test_as_many_sequences_as_the_passes_allow() -> None:
    assert make("rotations", 10, passes=52.5).sequences == rotations(10, 9).sequences
    assert make("rotations", 10, passes=55).sequences == rotations(10).sequences
    assert make("rotations", 10, passes=500).sequences == rotations(10).sequences
    assert make("rotations", 10, 3, 55).sequences == rotations(10, 3).sequences
    assert make("rotations", 10, 8, 20).sequences == rotations(10, 3).sequences


def test_shared_prefixes_leave_room_for_more_sequences() -> None:
    plan = make("iterative-rotations", 4, passes=28)
    assert plan.passes <= 28
    assert len(plan.sequences) == 12 > 28 / 2.5
    assert make("iterative-rotations", 4, 13).passes > 28


def test_a_tree_is_given_all_that_make_is() -> None:
    prior = np.array(SKEWED)
    plan = make("tree", 5, 4, 14, prior=prior, seed=3)
    assert plan == tree(5, 4, prior, 14, seed=3, effort=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("best", 4, None, None),
            f"plan: 'best' is unknown; one of {', '.join(KINDS)}",
        ),
        (("rotations", 0, None, None), "groups: 0 is too few; at least 1 is needed"),
        (("rotations", 6.0, None, None), "groups: 6.0 is not a whole number"),
        (("rotations", True, None, None), "groups: True is not a whole number"),
        (("rotations", 6, "2", None), "budget: '2' is not a whole number"),
        (
            ("rotations", 6, None, "8"),
            "passes: 8 is not a finite number of passes; leave it out for no limit",
        ),
        (("tree", -3, None, None), "groups: -3 is too few; at least 1 is needed"),
        (("greedy", 4, 0, None), "budget: 0 is too few; at least 1 is needed"),
        (("tree", 4, None, 2.4), "passes: 2.4 is too little; one order of 4 groups takes 2.5"),
        (("rotations", 10, None, 0), "passes: 0 is too little; one order of 10 groups takes 5.5"),
        (
            ("tree", 4, None, math.nan),
            "passes: nan is not a finite number of passes; leave it out for no limit",
        ),
        (
            ("rotations", 4, None, math.inf),
            "passes: inf is not a finite number of passes; leave it out for no limit",
        ),
    ],
)
def test_wrong_input_is_named_in_one_line(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make(*arguments)
    assert str(caught.value) == message


def test_an_even_prior_counts_as_none_so_that_scores_are_exact() -> None:
    plan = make("rotations", 6)
    even = [1 / 6] * 6
    assert float(plan.survival(2, even)) == float(plan.survival(2)) == 1
    assert plan.expected_live(range(9), even) == plan.expected_live(range(9))


@pytest.mark.parametrize("requests", [1.5, "a", -1, True, [1, 2.0]])
def test_requests_are_whole_numbers(requests: Any) -> None:
    with pytest.raises(InputError, match=r"requests: .* is not a whole number of at least 0"):
        make("rotations", 4).expected_live(requests)


@pytest.mark.parametrize("kind", TRAINING)
@pytest.mark.parametrize("window", [1, 2, "own"])
def test_passes_are_counted_with_the_window(kind: str, window: Window) -> None:
    """Every kind spends what the window saves, and stays within the limit."""
    least = make(kind, 5, budget=1, window=window) if kind != "tree" else None
    found, plain = make(kind, 5, passes=4, window=window), make(kind, 5, passes=4)
    assert found.window == window
    assert found.passes == sum(groups_used(module.depth, window) for module in found.modules) / 5 <= 4 + 1e-9
    assert len(found.modules) > len(plain.modules)
    if least is not None:
        assert least.passes == order_passes(5, window)


@pytest.mark.parametrize("window", [0, -1, 1.5, True, "all"])
def test_other_windows_are_refused(window: Any) -> None:
    with pytest.raises(InputError, match="window"):
        make("rotations", 5, window=window)


def test_one_order_must_be_affordable_in_the_window() -> None:
    assert make("rotations", 10, passes=1, window=1).passes == 1
    with pytest.raises(InputError, match=r"takes 1\.9$"):
        make("rotations", 10, passes=1, window=2)


@pytest.mark.parametrize("shards", [1, 3])
def test_none_trains_nothing(shards: int) -> None:
    plan = make("none", 6, budget=2, passes=7, shards=shards)
    assert (plan.kind, plan.groups, plan.sequences, plan.passes) == ("none", 6, (), 0)
