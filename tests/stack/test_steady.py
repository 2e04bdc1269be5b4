"""A record's features have the same bits in any company, for every model and kind of module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedsgt.stack.inputs import Inputs, Item, hidden_batch
from fedsgt.stack.stack import Stack
from fedsgt.stack.steady import ROWS, STEP, in_steady_batches, length_of, shape_of
from tests.stack.conftest import some_contents

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny

RECORDS = 45


class Features:
    """Features of records under the modules that a stack has loaded, as a worker computes them."""

    def __init__(self, stack: Stack, inputs: Inputs) -> None:
        self.stack, self.inputs = stack, inputs

    def __call__(self, items: Sequence[Item]) -> NDArray[np.float32]:
        longest = self.inputs.longest
        if self.stack.start:
            rows = in_steady_batches(items, longest, self._lower)
            items = [
                {"hidden": row[: length_of(item)] if longest else row}
                for item, row in zip(items, rows, strict=True)
            ]
        return np.stack(in_steady_batches(items, longest, self._upper))

    @torch.no_grad()
    def _lower(self, items: Sequence[Item], length: int) -> NDArray[Any]:
        return self.stack.lower(self.inputs.batch(items, length)).numpy()

    @torch.no_grad()
    def _upper(self, items: Sequence[Item], length: int) -> NDArray[Any]:
        text = self.inputs.longest > 0
        batch = hidden_batch(items, text, length) if self.stack.start else self.inputs.batch(items, length)
        return self.stack.outputs(batch)[1].numpy()


@pytest.mark.parametrize("layers", ["all", 1])
def test_features_have_the_same_bits_in_any_company(tiny: Tiny, model: str, kind: str, layers: Any) -> None:
    stack, inputs = tiny.stack(model, kind, layers=layers), tiny.inputs(model)
    features = Features(stack, inputs)
    items = [inputs.item("some", content) for content in some_contents(model, RECORDS)]
    modules, rng = tiny.modules(stack, 3), np.random.default_rng(0)
    for chain in ([], modules[:1], modules):
        stack.load(chain)
        whole = features(items)
        assert whole.shape == (RECORDS, stack.feature_width(chain))
        assert len({row.tobytes() for row in whole}) == RECORDS, "equal features would show nothing"
        sevens = np.concatenate([features(items[start : start + 7]) for start in range(0, RECORDS, 7)])
        assert sevens.tobytes() == whole.tobytes()
        order = rng.permutation(RECORDS)
        shuffled = features([items[index] for index in order])
        assert shuffled.tobytes() == whole[order].tobytes()
        for index in (0, 11, RECORDS - 1):
            assert features([items[index]]).tobytes() == whole[index].tobytes()


def test_a_batch_has_one_shape_and_texts_of_one_kind(tiny: Tiny) -> None:
    """A batch without any padding is another kind: attention then has no mask."""
    inputs = tiny.inputs("bert")
    lengths = [3, 5, 6, 9, 14, 14, 30, 32] * 5
    items = [inputs.item("r", (" ".join(["w1"] * (length - 2)),)) for length in lengths]
    seen: list[tuple[int, int, set[bool]]] = []

    def compute(chosen: Sequence[Item], length: int) -> NDArray[Any]:
        seen.append((len(chosen), length, {length_of(item) == length for item in chosen}))
        return np.array([length_of(item) for item in chosen])

    assert in_steady_batches(items, inputs.longest, compute) == lengths
    assert {rows for rows, _, _ in seen} == {ROWS}
    assert all(length % STEP == 0 and len(full) == 1 for _, length, full in seen)
    assert in_steady_batches([], inputs.longest, compute) == []


def test_no_text_is_padded_beyond_what_the_model_takes(tiny: Tiny) -> None:
    inputs = tiny.inputs("bert", max_length=13)
    longest, shorter = ([inputs.item("r", (" ".join(["w1"] * words),))] for words in (11, 9))
    assert shape_of(longest[0], inputs.longest) == (13, True)
    assert shape_of(shorter[0], inputs.longest) == (13, False)
    assert tiny.stack("bert").feature_width([]) == 2 * tiny.stack("bert").width == 64
