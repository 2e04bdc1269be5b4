"""Merging: the average of folded weights, against weights folded by hand."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.ia3 import Ia3
from fedsgt.stack.merge import Mixture, merge
from fedsgt.stack.stack import HEAD, Stack

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny

# Three sequences, of which two share their first module.
MIXTURE: Mixture = ((0.5, ("a", "b", "c")), (0.3, ("a", "d")), (0.2, ("e",)))
MERGEABLE = pytest.mark.parametrize("kind", ["lora", "ia3"])


def library(tiny: Tiny, stack: Stack) -> dict[str, Tensors]:
    return dict(zip("abcde", tiny.modules(stack, 5), strict=True))


def averaged_by_hand(tiny: Tiny, model: str, stack: Stack, known: dict[str, Tensors]) -> Any:
    """Run the plain class with each weight set to the mean over sequences, in float64."""
    plain: Any = deepcopy(tiny.untouched(model).model)
    weights = dict(plain.named_parameters())
    for name in stack.places.linears:
        for kind in ("weight", "bias"):
            parameter = weights[f"{name}.{kind}"]
            start = parameter.detach().double().numpy()
            parts = [
                share * made_of(start, kind, name, [known[key] for key in chain], stack)
                for share, chain in MIXTURE
            ]
            parameter.data = torch.from_numpy(sum(parts)).float()
    for name in stack.head:
        parts = [share * known[chain[-1]][HEAD + name].astype("f8") for share, chain in MIXTURE]
        weights[name].data = torch.from_numpy(sum(parts)).float()
    return plain


def made_of(
    start: NDArray[np.float64], part: str, name: str, modules: list[Tensors], stack: Stack
) -> NDArray[np.float64]:
    """Return a linear layer's weight or bias under some modules, by the formulas of the papers."""
    made = start.copy()
    for module in modules:
        if not isinstance(stack.kind, Ia3):
            product = module[f"{name}.lora_B"].astype("f8") @ module[f"{name}.lora_A"].astype("f8")
            made = made + (1.5 * product if part == "weight" else 0)
        elif part == "weight":
            scale = module[f"{name}.ia3"].astype("f8")
            made = made * (scale if stack.kind.linears[name].scales_input else scale[:, None])
        elif not stack.kind.linears[name].scales_input:
            made = made * module[f"{name}.ia3"].astype("f8")
    return made


@MERGEABLE
def test_merged_is_one_forward_pass_with_averaged_weights(tiny: Tiny, model: str, kind: str) -> None:
    stack, batch = tiny.stack(model, kind), tiny.batch(model)
    assert not isinstance(stack.kind, Ia3) or stack.kind.linears
    known = library(tiny, stack)
    found = tiny.logits(stack, merge(kind, MIXTURE, known.__getitem__), batch)
    with torch.no_grad():
        expected = averaged_by_hand(tiny, model, stack, known)(**batch).logits
    assert torch.allclose(found, expected, atol=1e-5)
    longest = tiny.logits(stack, [known[key] for key in MIXTURE[0][1]], batch)
    assert not torch.allclose(found, longest, atol=1e-3), "averaging changes something here"


@MERGEABLE
def test_one_sequence_alone_is_itself(tiny: Tiny, kind: str) -> None:
    stack, batch = tiny.stack("vit", kind), tiny.batch("vit")
    known = library(tiny, stack)
    plain = tiny.logits(stack, [known["a"], known["b"]], batch)
    merged = tiny.logits(stack, merge(kind, ((1.0, ("a", "b")),), known.__getitem__), batch)
    assert torch.equal(merged, plain)


def test_a_shared_module_stands_once_under_the_sum_of_its_weights(tiny: Tiny) -> None:
    known = library(tiny, tiny.stack("vit"))
    made = merge("lora", MIXTURE, known.__getitem__)
    assert len(made) == 5
    name = next(name for name in known["a"] if name.endswith(".lora_B"))
    for module, key, share in zip(made, "abcde", (0.8, 0.5, 0.5, 0.3, 0.2), strict=True):
        assert np.array_equal(module[name], known[key][name].astype("f8") * share)
    assert [any(part.startswith(HEAD) for part in module) for module in made] == [False] * 4 + [True]


@MERGEABLE
def test_merging_changes_neither_modules_nor_backbone_and_is_the_same_each_time(
    tiny: Tiny, kind: str
) -> None:
    stack = tiny.stack("bert", kind)
    known = library(tiny, stack)
    before = deepcopy(known)
    first, second = (merge(kind, MIXTURE, known.__getitem__) for _ in range(2))
    stack.load(first)
    stack.backbone.check()
    for one, other in zip(first, second, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one | other)
    for key, module in known.items():
        assert all(np.array_equal(array, before[key][name]) for name, array in module.items())


def test_prefixes_have_no_average(tiny: Tiny) -> None:
    known = library(tiny, tiny.stack("bert", "prefix"))
    with pytest.raises(
        InputError, match=r"^strategy: merged is not for peft.kind = prefix.*use all, min or long$"
    ):
        merge("prefix", MIXTURE, known.__getitem__)
