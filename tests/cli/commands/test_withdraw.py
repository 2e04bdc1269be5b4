"""`fedsgt withdraw`: what it prints, and options that do not go together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import remote_world
import typer
from click.testing import Result
from remote_world import Federation, desk_process, make_federation
from typer.testing import CliRunner

from fedsgt.cli.commands.withdraw import FORMS
from fedsgt.cli.commands.withdraw import withdraw as command
from fedsgt.errors import InputError


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return make_federation(tmp_path / "fed")


@pytest.fixture
def desk(federation: Federation) -> Iterator[None]:
    with desk_process(federation.server):
        yield


def fedsgt_withdraw(federation: Federation, *options: str, name: str = "a") -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(federation.folder / name / "client.toml"), *options])


def pending(federation: Federation, name: str = "a") -> list[Path]:
    return list((federation.folder / name / "state" / "pending").glob("*.json"))


@pytest.mark.usefixtures("desk")
def test_slices_and_all_by_the_command(federation: Federation) -> None:
    sizes, run = federation.client("b").slice_sizes(), federation.run().description.id
    shown = fedsgt_withdraw(federation, "--slice", "1", "--dry-run", name="b").stdout
    assert shown.splitlines()[1:] == [
        f"run {run}: would delete {sizes[1]} records ({sizes[1]} of slice 1)",
        "file records.parquet: rewritten without the withdrawn rows",
    ]
    assert federation.requests() == []
    assert f"{sizes[1]} records deleted" in fedsgt_withdraw(federation, "--slice", "1", name="b").stdout
    assert federation.client("b").slice_sizes() == (sizes[0], 0, sizes[2])
    assert f"{sizes[0] + sizes[2]} records deleted" in fedsgt_withdraw(federation, "--all", name="b").stdout
    assert federation.ids("b") == []
    again = fedsgt_withdraw(federation, "--all", name="b")
    assert isinstance(again.exception, InputError)
    assert "no record left" in str(again.exception)


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--all", "--slice", "0"],
        ["--record", "a00", "--all"],
        ["--record", "a00", "--slice", "0"],
        ["--records", "ids.txt", "--slice", "0"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("desk")
def test_options_that_do_not_go_together(federation: Federation, options: list[str]) -> None:
    """Exactly one kind of selection is taken; otherwise nothing is asked, here or at the desk."""
    done = fedsgt_withdraw(federation, *options)
    assert isinstance(done.exception, InputError)
    assert str(done.exception).endswith(f" named to withdraw; {FORMS}")
    assert pending(federation) == []
    assert federation.requests() == []
    assert len(federation.ids("a")) == remote_world.EACH
