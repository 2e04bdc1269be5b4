"""Sections of a configuration: defaults, and the values that each key may have."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from fedsgt.config import Config, load
from fedsgt.config.sections import Data, Peft, Section, Serving, Training
from fedsgt.errors import InputError


def test_the_defaults_are_the_papers_setting() -> None:
    run = load()
    assert (run.client_count(), run.grouping.groups, run.grouping.slices) == (10, 10, 5)
    assert (run.data.partition, run.data.alpha, run.plan.kind, run.serving.strategy) == (
        "dirichlet",
        0.3,
        "rotations",
        "all",
    )
    assert (run.peft.rank, run.peft.alpha, run.training.learning_rate, run.training.epochs) == (
        16,
        16,
        2e-3,
        3,
    )


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("plan.bugdet=8", ["plan.bugdet", "unknown", "did you mean budget?", "passes"]),
        ("plna.budget=8", ["plna", "unknown", "did you mean plan?"]),
        ("plan.budget=0", ["plan.budget", "0", "at least 1"]),
        ("plan.budget=2.5", ["plan.budget", "2.5", "whole number"]),
        ("plan.budget=true", ["plan.budget", "true", "whole number"]),
        ("plan.budget=many", ["plan.budget", "'many'", "whole number"]),
        ("plan.kind=tre", ["plan.kind", "'tre'", "'rotations'", "'tree'"]),
        ("grouping.slices=[5,5,0,5,5,5,5,5,5,5]", ["grouping.slices", "0", "at least 1"]),
        ("data.alpha=nan", ["data.alpha", "nan", "finite"]),
        ("data.alpha=0", ["data.alpha", "0", "above 0"]),
        ("data.seed=-1", ["data.seed", "-1", "at least 0"]),
        ("data.source=''", ["data.source: is empty; give one: digits"]),
        ("model.device=gpu", ["model.device: 'gpu' is not allowed; allowed: auto, cpu, cuda or cuda:N"]),
        ("serving.port=70000", ["serving.port", "70000", "65535"]),
    ],
)
def test_a_wrong_value_names_the_key_the_value_and_what_is_allowed(override: str, parts: list[str]) -> None:
    with pytest.raises(InputError, match=r"^[^\n]+$") as error:
        load(None, [override])
    for part in parts:
        assert part in str(error.value)


SECTIONS = [field.annotation for field in Config.model_fields.values()]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_is_described(section: type[Section]) -> None:
    """The documentation of the settings is made from these sentences."""
    assert [name for name, field in section.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_has_no_other_keys_and_does_not_change(section: type[Section]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        section.model_validate({"anything": 1})
    made = section()
    name = next(iter(section.model_fields))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(made, name, getattr(made, name))


@pytest.mark.parametrize(
    ("section", "values"),
    [
        (Training, {"epochs": "3"}),
        (Training, {"epochs": 3.0}),
        (Training, {"epochs": True}),
        (Training, {"learning_rate": "0.1"}),
        (Training, {"learning_rate": math.inf}),
        (Peft, {"freeze_a": 1}),
        (Data, {"source": 7}),
        (Serving, {"port": "8080"}),
    ],
)
def test_a_value_of_another_type_is_refused_and_never_converted(
    section: type[Section], values: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        section.model_validate(values)


def test_a_default_is_the_same_value_as_when_it_is_given() -> None:
    """Otherwise 16 and 16.0 would have different hashes, and modules would be trained again."""
    for section, values in ((Peft, {"alpha": 16}), (Training, {"clip": 1}), (Data, {"alpha": 0.3})):
        given, default = section.model_validate(values), section()
        assert given == default
        assert given.model_dump_json() == default.model_dump_json()
