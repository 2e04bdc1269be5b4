"""A client's app tells the server that something is wrong, and its own log what that is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from client_machines import Machines, access_to, remote_config
from flwr.app import Message
from tiny_world import Quiet, World

from fedsgt.build.train import train
from fedsgt.engine.flower.messages import text_message, text_of
from fedsgt.errors import BackboneChanged, InputError, ShareableError
from fedsgt.federation.client.node_app import UNTOLD, discreet


def test_errors_that_may_name_records_stay_here(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ShareableError) as caught, discreet():
        raise InputError("record 4711 is bad")
    assert str(caught.value) == UNTOLD
    assert caught.value.__cause__ is None
    assert capsys.readouterr().err == "fedsgt: record 4711 is bad\n"


@pytest.mark.parametrize("error", [ShareableError("its clock is wrong"), BackboneChanged("changed")])
def test_errors_that_are_meant_for_the_server_are_told(
    error: InputError, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(type(error)) as caught, discreet():
        raise error
    assert caught.value is error
    assert capsys.readouterr().err == ""


def test_a_client_with_bad_records_registers_nothing_and_names_none(
    images: World, machines: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server hears only that something is wrong; the client's own log says which record."""
    file = machines / "c1/records.parquet"
    table = pq.read_table(file)
    labels = pa.array([99] * len(table))
    pq.write_table(table.set_column(table.column_names.index("label"), "label", labels), file)
    grid = Machines(machines)
    with pytest.raises(InputError) as caught:
        train(remote_config(images), tmp_path / "run", Quiet(), access=access_to(machines, grid))
    assert "c1" in str(caught.value)
    assert UNTOLD in str(caught.value)
    own = {row.id for row in images.rows if row.client == "c1"}
    assert not any(name in str(caught.value) for name in own)
    said = [text_of(content) for client, content in grid.heard if client == "c1"]
    assert said
    assert all(told == {"problem": UNTOLD} for told in said)
    assert "fedsgt: " in capfd.readouterr().err


def test_a_question_that_cannot_be_read_is_an_error_and_not_the_end(machines: Path) -> None:
    grid = Machines(machines)
    names = list(grid.push_messages([Message(text_message({}), 1, "query.register")]))
    (reply,) = grid.pull_messages(names)
    assert reply.has_error(), text_of(reply.content)
