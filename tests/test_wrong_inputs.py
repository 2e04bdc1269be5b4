"""Whatever a person gets wrong, one line for each mistake says what, where and what to do; nothing changes.

The inputs and what is said of them are transcripts, in `fixtures/wrong_inputs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
import typer
from wrong_inputs import Place, Wrong, permissions_count, read_transcripts

from fedsgt import cli

WRONG = read_transcripts()
# Options that cannot be given wrongly: they take no value, and every command has them.
HARMLESS = {"--help"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return the folder in which all commands run; high-water marks are kept in it, too."""
    from wrong_place import make_place

    folder = tmp_path_factory.mktemp("wrong") / "here"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSGT_STATE", str(folder / "state"))
        make_place(folder)
        yield Place(folder)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.where} {' '.join(wrong.words)}"[:80])
def test_it_is_said_and_nothing_changes(wrong: Wrong, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    if wrong.modes and not permissions_count(place.folder):
        pytest.skip("root may read and write everything")
    monkeypatch.setenv("FEDSGT_STATE", str(place.folder / "state"))
    done, changed = place.run(wrong)
    assert wrong.fits(done, place.folder), f"{done}\n\nis not\n\n{wrong}"
    assert not changed


def test_what_is_said_has_one_line_for_each_mistake() -> None:
    """No traceback, no control character, and the number of mistakes is that of the lines below the first."""
    for wrong in WRONG:
        lines = wrong.err.splitlines()
        assert all(line.isprintable() for line in (*lines, *wrong.out.splitlines())), wrong.where
        if not lines:
            assert wrong.out, wrong.where
            continue
        head, *mistakes = lines
        several = re.search(r"\b(\d+) mistakes$", head)
        assert head.startswith("fedsgt: "), wrong.where
        assert len(mistakes) == (int(several[1]) if several else 0), wrong.where
        assert all(line.startswith("  ") for line in mistakes), wrong.where


def test_there_are_hundreds_of_them_and_every_command_and_option_is_among_them() -> None:
    assert len(WRONG) > 200
    different = {(*wrong.words, repr((wrong.files, wrong.given, wrong.modes))) for wrong in WRONG}
    assert len(different) == len(WRONG)
    missing = []
    for names, command in commands(typer.main.get_command(cli.app)):
        tried = [wrong.words for wrong in WRONG if wrong.words[: len(names)] == names]
        if not tried:
            missing.append(names)
        for parameter in command.params:
            given = {word.partition("=")[0] for words in tried for word in words}
            options = {*parameter.opts, *parameter.secondary_opts} - HARMLESS
            if isinstance(parameter, click.Option) and options and not options & given:
                missing.append([*names, *parameter.opts])
    assert missing == []


def commands(group: click.Command, names: tuple[str, ...] = ()) -> Iterator[tuple[list[str], click.Command]]:
    """Yield every command with its words, those of groups too."""
    if not isinstance(group, click.Group):
        yield list(names), group
        return
    for name, command in group.commands.items():
        yield from commands(command, (*names, name))
