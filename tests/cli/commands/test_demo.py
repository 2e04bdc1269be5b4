"""`fedsgt demo`: which deletions it chooses; the whole of it is played by tests/docs/test_readme.py."""

from __future__ import annotations

import json
from pathlib import Path

from command import shown

from fedsgt.cli.commands.demo import RECORDS, _deletions
from fedsgt.runs.folder import open_run


def test_it_deletes_records_then_a_slice_then_a_client(trained: Path) -> None:
    folder = open_run(trained)
    (records, slices, client) = (deletion for _, deletion in _deletions(folder))
    assert len({records.client, slices.client, client.client}) == 3
    assert records.records is not None
    assert len(records.records) == RECORDS
    own = json.loads(shown("records", str(trained), "--client", records.client, "--json"))
    assert set(records.records) <= {entry["id"] for entry in own}
    assert slices.slices is not None
    assert (client.records, client.slices) == (None, None)


def test_the_same_run_gives_the_same_demo(trained: Path) -> None:
    one, two = (_deletions(open_run(trained)) for _ in range(2))
    assert one == two
    for command, deletion in one:
        assert command.startswith(f"--client {deletion.client} ")
