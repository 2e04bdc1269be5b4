"""Wrong arguments are named, whatever their type, and never a bare error of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedsgt.api.arguments import check_text, deletions_of, paths_of, whole_number
from fedsgt.api.train import given_path, read_config
from fedsgt.errors import InputError
from fedsgt.unlearning.request import Deletion


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("c0", 5, None, False, None), "records is 5; give a list"),
        (("c0", None, 1.5, False, None), "slices is 1.5; give a list"),
        (("c0", None, ["0"], False, None), "are not all whole numbers"),
        (("c0", None, [True], False, None), "are not all whole numbers"),
        (("c0", b"r0", None, False, None), "records is one text"),
        (("c0", [b"r0"], None, False, None), "the id b'r0' is a bytes; ids are texts"),
        ((None, None, None, False, 5), "deletions is 5; give a list"),
        ((None, None, None, False, ["c0"]), "each is a fedsgt.Deletion"),
        ((7, None, None, True, None), "client is of type int"),
    ],
)
def test_deletions(arguments: tuple[Any, ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        deletions_of(*arguments)


def test_right_arguments() -> None:
    assert deletions_of("c0", iter(["a"]), None, False, None) == [Deletion("c0", records=("a",))]
    assert deletions_of("c0", None, 0, False, None) == [Deletion("c0", slices=(0,))]
    assert deletions_of("c0", None, None, True, None) == [Deletion("c0")]
    assert paths_of("a") == paths_of(["a"]) == paths_of(Path("a")) == [Path("a").absolute()]
    assert whole_number(3, "n") == 3
    check_text(None, "key")


def test_others() -> None:
    for wrong in (0, -1, True, 1.0, "1"):
        with pytest.raises(InputError, match="allowed: a whole number of at least 1"):
            whole_number(wrong, "n")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="key is of type int; allowed: a text"):
        check_text(5, "key")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="against is 5; give a list"):
        paths_of(5)  # type: ignore[arg-type]
    assert given_path("~nobody-of-this-name/x", "path").name == "x"


@pytest.mark.parametrize(
    ("config", "overrides", "told"),
    [
        ({5: 5}, (), "a dict of sections has texts as keys"),
        ({}, "data.seed=1", "overrides: give a list of texts"),
        ({}, [5], "overrides: give a list of texts"),
    ],
)
def test_configurations(config: Any, overrides: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_config(config, None, overrides)


def test_ids_are_not_printed() -> None:
    assert "patient" not in repr(Deletion("c0", records=("patient-17",)))
