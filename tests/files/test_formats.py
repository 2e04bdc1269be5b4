"""Formats: a newer one is refused with a clear word; anything else is left to its reader."""

from __future__ import annotations

import pytest

from fedsgt.files.formats import NewerFormat, check_format


def test_a_newer_format_is_refused_with_what_to_do() -> None:
    with pytest.raises(NewerFormat) as caught:
        check_format({"format": 3}, 2, "run.json")
    assert str(caught.value) == (
        "run.json: it was made by a newer version of fedsgt (format 3; this one knows up to 2); "
        "update fedsgt; nothing was changed"
    )


@pytest.mark.parametrize(
    "values", [{"format": 2}, {"format": 1}, {}, {"format": "9"}, {"format": True}, [], None]
)
def test_others_are_for_their_reader(values: object) -> None:
    check_format(values, 2, "run.json")
