"""Descent with restarts: never worse than BAC, the best where all groupings can be tried."""

import numpy as np
import pytest
from label_mixes import by_class, by_client

from fedsgt.grouping import make, objective
from fedsgt.grouping.descent import swaps
from fedsgt.grouping.result import deviation


@pytest.mark.parametrize("limits", [None, 3])
def test_centered_is_never_worse_than_bac(limits: int | None) -> None:
    for seed in range(5):
        vectors = by_class(seed)
        made = [make(name, [5] * 10, 10, limits=limits, embeddings=vectors) for name in ("centered", "bac")]
        assert objective(made[0], vectors) <= objective(made[1], vectors) + 1e-12


def test_centered_finds_the_best_of_all_small_groupings() -> None:
    vectors = np.random.default_rng(0).random((8, 2))
    grouping = make("centered", [2] * 4, 2, embeddings=vectors)
    halves = [np.array([code >> bit & 1 for bit in range(8)]) for code in range(256) if code.bit_count() == 4]
    assert objective(grouping, vectors) == pytest.approx(min(deviation(half, vectors, 2) for half in halves))


@pytest.mark.parametrize(("in_matrix", "partners"), [(3000, 4096), (0, 4096), (0, 100)])
def test_centered_works_in_parts(monkeypatch: pytest.MonkeyPatch, in_matrix: int, partners: int) -> None:
    """Many slices: not all pairs at once, distances not kept, partners sampled."""
    monkeypatch.setattr(swaps, "MOST_IN_MATRIX", in_matrix)
    monkeypatch.setattr(swaps, "PARTNERS", partners)
    vectors = by_client(0, clients=140)
    made, chance = (make(name, [5] * 140, 20, embeddings=vectors) for name in ("centered", "random"))
    assert objective(made, vectors) < 0.02 * objective(chance, vectors)
