"""Opening a run's model to serve it: only the backbone and inputs of training give its modules a meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder

if TYPE_CHECKING:  # torch must be imported under the execution profile
    from fedsgt.stack.model import OpenModel


def open_model_of(folder: RunFolder) -> OpenModel:
    """Open the model of a run, checked as `check_model` does."""
    from fedsgt.stack.model import open_model

    model = open_model(folder.config, folder.description.labels)
    check_model(folder, model)
    return model


def check_model(folder: RunFolder, model: OpenModel) -> None:
    """Check that the backbone and the preparation of its inputs are those of the run's training."""
    from fedsgt.build.targets import settings_hash, settings_of

    known, found = folder.description, model.backbone.hash
    if found != known.backbone:
        raise InputError(
            f"{folder.path}: the backbone's weights are not those that this run was trained on "
            f"({found[:12]} against {known.backbone[:12]}); see model.backbone"
        )
    # Its settings are the run's own, so only what the backbone's folder says of its inputs can differ.
    if settings_hash(settings_of(folder.config, known.labels, model)) != known.config_hash:
        raise InputError(f"{folder.path}: tokenizer or image settings of the backbone changed since training")
