"""Stop below, or go on from, the lowest layer that holds modules.

Everything below it is a fixed function of a record and the backbone, so its output is computed once for each
record and used by all sequences, phases and epochs.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from fedsgt.stack.places import Places


class Reached(Exception):
    """Not an error: how the forward pass is left early."""

    def __init__(self, hidden: Tensor) -> None:
        self.hidden = hidden


class LowerLayers:
    """The part of a model below `places.start`, made skippable; the model's own forward stays in charge."""

    def __init__(self, model: PreTrainedModel, places: Places) -> None:
        self.model = model
        self.given: Tensor | None = None
        self.stopping = False
        if places.start == 0:
            return
        self._around(model.base_model.get_submodule("embeddings"), lambda: self.given)
        for name in places.layers[: places.start]:
            self._around(model.get_submodule(name), lambda: self.given)
        self._stop_at(model.get_submodule(places.layers[places.start]))

    def compute(self, inputs: dict[str, Any]) -> Tensor:
        """What enters the lowest layer with modules."""
        self.stopping = True
        try:
            self.model(**inputs)
        except Reached as reached:
            return reached.hidden
        finally:
            self.stopping = False
        raise RuntimeError("the forward pass did not come to the layer where modules start")

    def resume(self, hidden: Tensor, mask: Tensor | None) -> Any:
        """The rest of the forward pass from there."""
        self.given = hidden
        entrance = "pixel_values" if self.model.main_input_name == "pixel_values" else "inputs_embeds"
        extra = {} if mask is None else {"attention_mask": mask}
        try:
            return self.model(**{entrance: hidden}, **extra)
        finally:
            self.given = None

    def _around(self, module: nn.Module, instead: Any) -> None:
        inner = module.forward

        def forward(*args: Any, **options: Any) -> Any:
            given = instead()
            return inner(*args, **options) if given is None else given

        module.forward = forward

    def _stop_at(self, module: nn.Module) -> None:
        inner = module.forward

        def forward(hidden: Tensor, *args: Any, **options: Any) -> Any:
            if self.stopping:
                raise Reached(hidden)
            return inner(hidden, *args, **options)

        module.forward = forward
