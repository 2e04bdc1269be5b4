"""A model is opened in one way: the configured backbone, a stack of the configured kind, and its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fedsgt.config import Config
from fedsgt.config.sections import Peft
from fedsgt.errors import InputError
from fedsgt.stack.model import open_model

if TYPE_CHECKING:
    from tests.stack.conftest import Tiny


def config_of(tiny: Tiny, model: str, **settings: Any) -> Config:
    return Config(model=tiny.settings(model), peft=Peft(rank=2, **settings))


def test_all_of_it_is_as_configured(tiny: Tiny, model: str, kind: str) -> None:
    opened = open_model(config_of(tiny, model, kind=kind, layers=1), labels=5)
    assert opened.backbone is opened.stack.backbone
    assert opened.backbone.hash == tiny.untouched(model).hash
    assert (opened.stack.settings.kind, opened.stack.start) == (kind, 2)
    assert opened.inputs.describe() == tiny.inputs(model).describe()
    assert opened.stack.last is None, "no module is loaded"
    assert opened.backbone.model.config.num_labels == 5


def test_each_is_another(tiny: Tiny) -> None:
    """Modules loaded into one model must not be in the other."""
    one, other = (open_model(config_of(tiny, "vit"), labels=5) for _ in range(2))
    one.stack.load(tiny.modules(one.stack, 1))
    assert other.stack.last is None
    assert all(linear.folded is None for linear in other.stack.kind.linears.values())  # type: ignore[attr-defined]


def test_the_device(tiny: Tiny) -> None:
    opened = open_model(config_of(tiny, "vit"), labels=5, device="meta")
    assert {tensor.device.type for tensor in opened.backbone.model.parameters()} == {"meta"}
    assert opened.stack.device.type == "meta"


def test_a_backbone_that_is_not_there(tiny: Tiny) -> None:
    config = config_of(tiny, "vit")
    model = config.model.model_copy(update={"backbone": "./nowhere"})
    with pytest.raises(InputError, match="does not exist"):
        open_model(config.model_copy(update={"model": model}), labels=5)
