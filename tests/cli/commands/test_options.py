"""Options that several commands share: sizes, numbers, pictures, and which settings come last."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsgt.cli.commands.options import check_plot, load_run, read_bytes, read_numbers
from fedsgt.errors import InputError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("2400000", 2_400_000),
        ("2400000 B", 2_400_000),
        ("2.4MB", 2_400_000),
        ("2.4 m", 2_400_000),
        ("1.5KiB", 1536),
        ("1gib", 2**30),
        (" 3k ", 3000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert read_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "2,4MB", "MB", "1TB", "1e6", "0.0001k", "nan"])
def test_texts_that_are_no_size(text: str) -> None:
    with pytest.raises(InputError, match=r"is no size; write it as 2\.4MB"):
        read_bytes(text)


def test_numbers_from_a_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "shares").write_text("0.5\n0.3, 0.2\n")
    for text in ("0.5,0.3,0.2", "0.5 0.3  0.2", str(tmp_path / "shares")):
        assert read_numbers("prior", text) == [0.5, 0.3, 0.2]


@pytest.mark.parametrize("text", ["", " , ", "0.5;0.5", "half", "nowhere.txt"])
def test_texts_that_are_no_numbers(text: str) -> None:
    with pytest.raises(InputError, match=r"prior: .* is neither a list of numbers"):
        read_numbers("prior", text)


def test_a_picture_needs_a_known_ending_and_a_folder(tmp_path: Path) -> None:
    for name in ("a.svg", "a.png", "a.pdf"):
        check_plot(tmp_path / name)
    with pytest.raises(InputError, match=r"is no picture's name; it must end in \.svg, \.png, \.pdf"):
        check_plot(tmp_path / "a.SVG.txt")
    with pytest.raises(InputError, match=r"the folder .*none does not exist"):
        check_plot(tmp_path / "none" / "a.svg")
    assert list(tmp_path.iterdir()) == [], "it is only looked at"


def test_a_system_overrides_the_file_and_single_values_override_both(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[grouping]\ngroups = 10\n\n[plan]\nshards = 1\n")
    assert load_run(file, None, []).plan.shards == 1
    system = load_run(file, "fedcio", [])
    assert system.plan.shards == system.grouping.groups > 1
    changed = load_run(file, "fedcio", ["grouping.groups=4", "plan.shards=4"])
    assert (changed.plan.shards, changed.grouping.groups) == (4, 4)
    with pytest.raises(InputError, match="fedkio"):
        load_run(file, "fedkio", [])
