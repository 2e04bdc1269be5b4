"""Content of a certificate on one screen; the file may come from anybody."""

from __future__ import annotations

from certificates import certificate
from fedsgt.cli.views.certificate import certificate_text


def test_every_part_and_statement_has_its_line() -> None:
    made = certificate(7, ("grouping: bac looked at data content",))
    lines = certificate_text(made).splitlines()
    assert len([line for line in lines if line.startswith("  deleted ")]) == len(made.request.parts)
    assert "data content   grouping: bac looked at data content" in lines
    start = lines.index("What this proves")
    middle = lines.index("What it does not prove")
    assert lines[start + 1 : middle] == [f"  - {sentence}" for sentence in made.statement.proved]
    assert lines[middle + 1 :] == [f"  - {sentence}" for sentence in made.statement.not_proved]


def test_nothing_destroyed_is_not_a_list_of_nothing() -> None:
    made = certificate(7).model_copy(update={"destroyed": []})
    assert "destroyed      0 artefacts" in certificate_text(made).splitlines()


def test_control_characters_do_not_reach_the_terminal() -> None:
    made = certificate(7).model_copy(update={"run": "x\x1b[2J\nserved 99"})
    text = certificate_text(made)
    assert "\x1b" not in text
    assert "run            x\\x1b[2J\\nserved 99" in text.splitlines()
