"""Forward passes that stop at, or start from, the lowest layer that holds modules.

The layers below it are a fixed function of a record and the backbone, so their output is computed once for
each record and serves all sequences, phases and epochs.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from fedsgt.stack.places import Places


class LowerLayersDone(Exception):
    """Not an error, but the way out of a forward pass that stops early."""

    def __init__(self, hidden: Tensor) -> None:
        self.hidden = hidden


class LowerLayers:
    """Makes the layers below `places.start` of a model skippable.

    The model's own forward function stays in charge, so that masks, embeddings and heads of every supported
    architecture are computed by its own code.
    """

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
        """Return the input of the lowest layer with modules."""
        self.stopping = True
        try:
            self.model(**inputs)
        except LowerLayersDone as done:
            return done.hidden
        finally:
            self.stopping = False
        raise RuntimeError("the forward pass did not come to the layer where modules start")

    def resume(self, hidden: Tensor, mask: Tensor | None) -> Any:
        """Run the rest of the forward pass on what `compute` returned."""
        self.given = hidden
        # The model insists on an input of its own. Only its shape is read, for masks: embeddings and lower
        # layers return what was given instead of computing anything.
        entrance = "pixel_values" if self.model.main_input_name == "pixel_values" else "inputs_embeds"
        extra = {} if mask is None else {"attention_mask": mask}
        try:
            return self.model(**{entrance: hidden}, **extra)
        finally:
            self.given = None

    def _around(self, module: nn.Module, instead: Any) -> None:
        # On the instance, not as a hook: a hook cannot keep the module from computing.
        inner = module.forward

        def forward(*args: Any, **options: Any) -> Any:
            given = instead()
            return inner(*args, **options) if given is None else given

        module.forward = forward

    def _stop_at(self, module: nn.Module) -> None:
        inner = module.forward

        def forward(hidden: Tensor, *args: Any, **options: Any) -> Any:
            if self.stopping:
                raise LowerLayersDone(hidden)
            return inner(hidden, *args, **options)

        module.forward = forward
