from typing import Self

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from fedsgt.words import (
    counted,
    counted_passes,
    counted_range,
    first_problem,
    one_line,
    printable,
    shown_bytes,
)


def test_numbers_go_with_their_word() -> None:
    assert [counted(number, "record") for number in (0, 1, 80)] == ["0 records", "1 record", "80 records"]


def test_equal_ends_of_a_range_are_one_number() -> None:
    assert counted_range(70, 80, "record") == "70 to 80 records"
    assert counted_range(80, 80, "record") == "80 records"
    assert counted_range(1, 1, "record") == "1 record"


def test_passes_go_with_their_word() -> None:
    assert [counted_passes(passes) for passes in (1, 1.0, 5.5, 10)] == [
        "1 pass",
        "1 pass",
        "5.5 passes",
        "10 passes",
    ]


def test_sizes_have_three_digits() -> None:
    found = [shown_bytes(count) for count in (0, 999, 2_400_000, 35_370, 1.5e12)]
    assert found == ["0 B", "999 B", "2.4 MB", "35.4 kB", "1,500 GB"]


def test_an_error_is_one_line() -> None:
    assert one_line(ValueError("a\n  b\tc")) == "a b c"
    assert one_line(KeyError()) == "KeyError"


def test_no_text_steers_the_terminal() -> None:
    assert printable("Zoë 1\n\x1b[2J\u202e") == r"Zoë 1\n\x1b[2J\u202e"


def test_what_is_shown_is_shown_once_more_unchanged() -> None:
    once = printable("a\x1b[2J\n", 5)
    assert printable(once, 5) == once


def test_a_long_text_is_cut() -> None:
    assert printable("\n" * 10**6, 7) == r"\n\n\n" + "\\"
    assert printable(123456, 3) == "123"


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.number < 0:
            raise ValueError("number is below 0")
        return self


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"number": "x"}', "number: Input should be a valid integer, unable to parse string as an integer"),
        ('{"number": -1}', "file: number is below 0"),
        ('{"a\\u001b": 1}', r"a\x1b: Extra inputs are not permitted"),
        (f'{{"{"a" * 1000}": 1}}', f"{'a' * 200}: Extra inputs are not permitted"),
    ],
)
def test_the_first_problem_of_a_text_is_one_line(text: str, said: str) -> None:
    with pytest.raises(ValidationError) as error:
        Model.model_validate_json(text)
    assert first_problem(error.value, "file") == said
