"""The last layer computed for the first token alone, which is all that classification heads read.

The other tokens need no output, and no keys and values of their own either: q·(K x) = (Kᵀ q)·x, and a mean of
values is the value of the mean. So the query is taken back through the key's weight, the tokens are mixed as
they are, and one vector for each head goes through the value's weight. This saves nearly all of the layer's
work, forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from fedsgt.stack.kinds import dense
from fedsgt.stack.prefix import ATTENTION as VIRTUAL
from fedsgt.stack.prefix import attend

Layer: TypeAlias = Callable[[Any, Tensor, Tensor | None], Tensor]


class LastLayer:
    """Makes the named last layer compute the first token alone, if the model's class is known here.

    Others keep their own last layer, such as DeiT with its second head, which reads the second token.
    """

    def __init__(self, model: PreTrainedModel, name: str) -> None:
        self.is_whole = False
        short = FIRST_TOKEN.get(type(model).__name__)
        if short is not None:
            self._shorten(model.get_submodule(name), short)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Let the layer compute all tokens meanwhile."""
        self.is_whole = True
        try:
            yield
        finally:
            self.is_whole = False

    def _shorten(self, layer: nn.Module, short: Layer) -> None:
        inner = layer.forward

        def forward(hidden: Tensor, attention_mask: Tensor | None = None, *args: Any, **options: Any) -> Any:
            if self.is_whole:
                return inner(hidden, attention_mask, *args, **options)
            return short(layer, hidden, attention_mask)

        layer.forward = forward


def _vit(layer: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    """Compute a ViT layer, which normalises before each block."""
    attention, seen = layer.attention, layer.layernorm_before(hidden)
    context = _attend(attention, seen, attention.q_proj, attention.k_proj, attention.v_proj, mask)
    first = hidden[:, :1] + attention.o_proj(context)
    done: Tensor = first + layer.mlp(layer.layernorm_after(first))
    return done


def _bert(layer: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    """Compute a BERT layer, whose output modules add the residual and normalise."""
    attention = layer.attention.self
    context = _attend(attention, hidden, attention.query, attention.key, attention.value, mask)
    done: Tensor = layer.feed_forward_chunk(layer.attention.output(context, hidden[:, :1]))
    return done


def _distilbert(layer: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    attention = layer.attention
    context = _attend(attention, hidden, attention.q_lin, attention.k_lin, attention.v_lin, mask)
    first = layer.sa_layer_norm(attention.out_lin(context) + hidden[:, :1])
    done: Tensor = layer.output_layer_norm(layer.ffn(first) + first)
    return done


def _attend(
    attention: nn.Module,
    tokens: Tensor,
    query: nn.Module,
    key: nn.Module,
    value: nn.Module,
    mask: Tensor | None,
) -> Tensor:
    """Return the first token's attention output over all tokens that the mask lets it see."""
    config: Any = attention.config
    heads, asked = int(config.num_attention_heads), query(tokens[:, :1])
    seen = None if mask is None else mask[:, :, :1]
    if config._attn_implementation == VIRTUAL:  # virtual tokens have keys and values, but no token to mix
        return _beside_virtual(attention, asked, key(tokens), value(tokens), heads, seen)
    keys, _ = dense(key)  # a key's bias adds the same to every score of a head, which softmax ignores
    values, bias = dense(value)
    size = len(keys) // heads
    back = torch.einsum("bhs,hsw->bhw", asked.view(-1, heads, size), keys.view(heads, size, -1))
    scores = (back * size**-0.5) @ tokens.mT
    if seen is not None:  # either flags of visible tokens, or numbers to add to the scores
        seen = seen.flatten(1, 2)
        scores = scores.masked_fill(~seen, -torch.inf) if seen.dtype == torch.bool else scores + seen
    mixed = scores.softmax(dim=-1) @ tokens
    context = torch.einsum("bhw,hsw->bhs", mixed, values.view(heads, size, -1)).flatten(1)
    return (context if bias is None else context + bias)[:, None]


def _beside_virtual(
    attention: nn.Module, query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None
) -> Tensor:
    query, key, value = (
        side.view(*side.shape[:2], heads, -1).transpose(1, 2) for side in (query, key, value)
    )
    found = attend(attention, query, key, value, mask, dropout=0.0, scaling=query.shape[-1] ** -0.5)
    return found[0].flatten(2)


FIRST_TOKEN: dict[str, Layer] = {
    "ViTForImageClassification": _vit,
    "DeiTForImageClassification": _vit,
    "BertForSequenceClassification": _bert,
    "RobertaForSequenceClassification": _bert,
    "DistilBertForSequenceClassification": _distilbert,
}
