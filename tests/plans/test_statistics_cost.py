"""Cost of statistics: chains, forward passes and bytes."""

from __future__ import annotations

from fedsgt.plans import rotations
from fedsgt.plans.statistics_cost import StatisticsCost, passes_words, statistic_bytes
from fedsgt.stack.statistics import Statistic

PLAN = rotations(10, 10)


def cost(when: str = "build", share: float = 1.0, strategy: str = "all") -> StatisticsCost:
    return StatisticsCost.of(len(PLAN.modules), PLAN.sequences, when, share, strategy)


def test_there_is_a_forward_pass_for_each_chain_and_the_bare_backbone() -> None:
    assert (cost().chains, cost().forward_passes) == (101, 101)
    assert (cost("serve").chains, cost("serve", strategy="long").chains) == (11, 2)
    assert cost(share=0.5).forward_passes == 50.5
    assert cost("serve", strategy="long").training_epochs == 2 / 3


def test_bytes_are_those_of_the_arrays() -> None:
    made = Statistic.empty(12, 3, 16)
    assert statistic_bytes(12, 3) == made.gram.nbytes + made.cross.nbytes
    assert cost().bytes(2, 12, 3) == 2 * (statistic_bytes(24, 3) + 100 * statistic_bytes(12, 3))
    # The figures of docs/planning.md.
    assert round(cost().bytes(10, 768, 10) / 1e9, 1) == 2.5
    assert round(cost().bytes(10, 1024, 2) / 1e9, 1) == 4.4
    assert round(cost("serve").bytes(10, 1024, 2) / 1e9, 2) == 0.59


def test_passes_in_words() -> None:
    assert passes_words(1) == "1 forward pass over the data, as long as 0.333 epochs of training"
    assert passes_words(37) == "37 forward passes over the data, as long as 12.3 epochs of training"
