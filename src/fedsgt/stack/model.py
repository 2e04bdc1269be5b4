"""The one way to open a model: a frozen backbone, the stack of modules on it, and its inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedsgt.config import Config
from fedsgt.stack.backbone import Backbone, load_backbone
from fedsgt.stack.inputs import Inputs, make_inputs
from fedsgt.stack.stack import Stack


@dataclass(frozen=True, eq=False)
class OpenModel:
    """A stack without modules, ready to load or train some, and the preparation of its inputs."""

    stack: Stack
    inputs: Inputs

    @property
    def backbone(self) -> Backbone:
        return self.stack.backbone


def open_model(config: Config, labels: int, device: str = "cpu") -> OpenModel:
    """Load the configured backbone with a head of `labels` outputs onto `device`."""
    settings = config.model
    backbone = load_backbone(settings.backbone, settings.task, labels)
    # Moved before the stack is made, which allocates its own tensors where the backbone's are.
    backbone.model.to(torch.device(device))  # type: ignore[arg-type]
    return OpenModel(Stack(backbone, config.peft), make_inputs(settings, backbone))
