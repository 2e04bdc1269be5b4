"""Tables over subsets, against sums over literal subsets."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsgt.plans.scoring.subsets import (
    mask_of,
    members,
    mobius,
    sizes,
    spread_maximum,
    subset_sums,
    subset_totals,
    superset_mobius,
    superset_sums,
)

GROUPS = 5
MASKS = range(1 << GROUPS)

Table = NDArray[np.float64]
InPlace = Callable[[Table], None]


def within(inner: int, outer: int) -> bool:
    return inner & outer == inner


def random_table() -> Table:
    return np.random.default_rng(2).integers(-9, 9, size=len(MASKS)).astype(np.float64)


def changed(change: InPlace, table: Table) -> Table:
    copy = table.copy()
    change(copy)
    return copy


def test_masks_and_members_are_inverse() -> None:
    assert [mask_of(members(mask)) for mask in MASKS] == list(MASKS)
    assert members(mask_of([4, 0, 3])) == [0, 3, 4]


def test_sizes_count_the_members() -> None:
    assert sizes(GROUPS).tolist() == [len(members(mask)) for mask in MASKS]


def test_subset_sums_add_the_members_weights() -> None:
    weights = [0.5, 2.0, 0.25, 8.0, 1.0]
    assert subset_sums(weights).tolist() == [sum(weights[g] for g in members(mask)) for mask in MASKS]


def test_spread_maximum_takes_the_largest_of_the_subsets() -> None:
    table = random_table().astype(np.int8)
    expected = [max(table[inner] for inner in MASKS if within(inner, mask)) for mask in MASKS]
    spread_maximum(table)
    assert table.tolist() == expected


def test_subset_totals_add_all_subsets() -> None:
    table = random_table()
    expected = [sum(table[inner] for inner in MASKS if within(inner, mask)) for mask in MASKS]
    assert changed(subset_totals, table).tolist() == expected


def test_superset_sums_add_all_supersets() -> None:
    table = random_table()
    expected = [sum(table[outer] for outer in MASKS if within(mask, outer)) for mask in MASKS]
    assert changed(superset_sums, table).tolist() == expected


@pytest.mark.parametrize("back_first", [True, False])
def test_superset_coefficients_undo_superset_sums(back_first: bool) -> None:
    table = random_table()
    steps = (superset_mobius, superset_sums) if back_first else (superset_sums, superset_mobius)
    assert changed(steps[1], changed(steps[0], table)).tolist() == table.tolist()


def test_coefficients_undo_subset_totals() -> None:
    table = changed(subset_totals, random_table()).astype(np.int64)
    mobius(table)
    assert table.tolist() == random_table().tolist()
