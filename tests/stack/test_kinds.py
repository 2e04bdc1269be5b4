"""Functions that all kinds of modules share: copies, exact sums, draws and replaced layers."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from fedsgt.stack.kinds import dense, double, parameter, swap, uniform
from fedsgt.stack.lora import LoraLinear

HERE = torch.device("cpu")
FIRST = [0.08539500832557678, 0.1525014340877533, -0.23867341876029968]


def test_a_parameter_does_not_share_memory_with_what_it_started_from() -> None:
    start = np.arange(3, dtype=np.float32)
    made = parameter(start, HERE)
    with torch.no_grad():
        made.add_(1)
    assert start.tolist() == [0, 1, 2]
    assert made.requires_grad
    assert not parameter(start, HERE, trainable=False).requires_grad


def test_folding_is_in_float64() -> None:
    """In float32, one and a part of 2**-30 would be one."""
    one, small = (double(np.array([value], np.float32), HERE) for value in (1, 2.0**-30))
    assert one.dtype == torch.float64
    assert (one + small).item() == 1 + 2.0**-30


def test_draws_are_the_same_on_every_machine_and_within_the_bound() -> None:
    drawn = uniform(np.random.default_rng(5), (200, 3), 0.25)
    assert drawn.dtype == np.float32
    assert -0.25 <= drawn.min() < -0.2 < 0.2 < drawn.max() <= 0.25
    # From NumPy's PCG64 of seed 5; other numbers would change the bytes of every module.
    assert drawn[0].tolist() == FIRST


def test_swapping_takes_the_exact_name() -> None:
    model = nn.Sequential(*(nn.Linear(1, 1) for _ in range(11)))
    before = list(model)
    swap(model, "1", nn.Identity())
    assert isinstance(model[1], nn.Identity)
    assert [index for index in range(11) if model[index] is not before[index]] == [1]


def test_dense_weights_of_a_plain_and_an_adapted_layer() -> None:
    plain = nn.Linear(3, 2)
    weight, bias = dense(plain)
    assert weight is plain.weight
    assert bias is plain.bias
    adapted = LoraLinear(plain, 1.0)
    adapted.fold([(torch.ones(1, 3).double(), torch.ones(2, 1).double())])
    assert torch.equal(dense(adapted)[0], plain.weight + 1)
