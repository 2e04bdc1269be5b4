"""The plain classes of transformers, with which the results of a stack are compared."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fedsgt.files.tensors import Tensors
from fedsgt.stack.stack import HEAD

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny


def with_head(tiny: Tiny, model: str, module: Tensors) -> Any:
    """Return the plain class of transformers with this module's head and nothing else of it."""
    plain: Any = deepcopy(tiny.untouched(model).model)
    heads = {
        name.removeprefix(HEAD): torch.from_numpy(array) for name, array in module.items() if HEAD in name
    }
    plain.load_state_dict(heads, strict=False)
    return plain


def forward(plain: Any, batch: dict[str, Any]) -> torch.Tensor:
    """Return the logits of the model's own forward pass."""
    with torch.no_grad():
        found: torch.Tensor = plain(**batch).logits
    return found


def own_projections(attention: nn.Module) -> list[str]:
    """Return the names that this attention has for its query, key and value layers."""
    known = (("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("q_lin", "k_lin", "v_lin"))
    return next(list(names) for names in known if hasattr(attention, names[0]))
