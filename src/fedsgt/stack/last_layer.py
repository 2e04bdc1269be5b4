"""The last layer for the first token alone: heads read nothing else, so the other tokens need no output.

Keys and values are still those of all tokens. Some nine tenths of the layer's work fall away, both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

Layer: TypeAlias = Callable[[Any, Tensor, Tensor | None], Tensor]


def shorten_last_layer(model: PreTrainedModel, name: str) -> None:
    """Of the classes known here; others, such as DeiT with a second head, keep their own last layer."""
    short = FIRST_TOKEN.get(type(model).__name__)
    if short is None:
        return
    layer = model.get_submodule(name)

    def forward(hidden: Tensor, attention_mask: Tensor | None = None, *_: Any, **__: Any) -> Tensor:
        return short(layer, hidden, attention_mask)

    layer.forward = forward


def _vit(layer: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    """Normalised before; the residual goes around."""
    attention, seen = layer.attention, layer.layernorm_before(hidden)
    query = attention.q_proj(seen[:, :1])
    context = _attend(attention, query, attention.k_proj(seen), attention.v_proj(seen), mask)
    first = hidden[:, :1] + attention.o_proj(context)
    done: Tensor = first + layer.mlp(layer.layernorm_after(first))
    return done


def _bert(layer: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    """Normalised after; the blocks' own output modules add the residual."""
    attention, first = layer.attention.self, hidden[:, :1]
    context = _attend(attention, attention.query(first), attention.key(hidden), attention.value(hidden), mask)
    done: Tensor = layer.feed_forward_chunk(layer.attention.output(context, first))
    return done


def _distilbert(layer: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    attention, first = layer.attention, hidden[:, :1]
    query = attention.q_lin(first)
    context = _attend(attention, query, attention.k_lin(hidden), attention.v_lin(hidden), mask)
    first = layer.sa_layer_norm(attention.out_lin(context) + first)
    done: Tensor = layer.output_layer_norm(layer.ffn(first) + first)
    return done


def _attend(attention: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """By the same attention function as the other layers, so that virtual tokens are seen here too."""
    config: Any = attention.config
    size = query.shape[-1] // int(config.num_attention_heads)
    heads = [side.view(*side.shape[:2], -1, size).transpose(1, 2) for side in (query, key, value)]
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(config._attn_implementation, sdpa_attention_forward)
    seen = None if mask is None else mask[:, :, :1]
    found = attend(attention, *heads, seen, dropout=0.0, scaling=size**-0.5)
    context: Tensor = found[0].flatten(2)
    return context


FIRST_TOKEN: dict[str, Layer] = {
    "ViTForImageClassification": _vit,
    "DeiTForImageClassification": _vit,
    "BertForSequenceClassification": _bert,
    "RobertaForSequenceClassification": _bert,
    "DistilBertForSequenceClassification": _distilbert,
}
