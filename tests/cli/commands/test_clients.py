"""`fedsgt clients`: names, records, slices, groups, and what is left."""

from __future__ import annotations

import json

from command import fedsgt, shown


def test_clients_are_listed_with_what_is_left(run: str) -> None:
    before = json.loads(shown("clients", run, "--json"))
    assert [one["name"] for one in before] == ["client-0", "client-1", "client-2"]
    assert [one["left"] for one in before] == [40, 40, 40]
    assert fedsgt("unlearn", run, "--client", "client-1", "--all", "--yes").returncode == 0
    after = json.loads(shown("clients", run, "--json"))
    assert [one["left"] for one in after] == [40, 0, 40]
    lines = shown("clients", run).splitlines()
    assert lines[0].split() == ["client", "records", "left", "slices", "groups"]
    assert lines[2].startswith("client-1       40        0       2  ")
    assert lines[2].endswith("nothing is left")
    assert lines[4].split() == ["all", "120", "80"]


def test_a_folder_that_is_no_run_is_named() -> None:
    done = fedsgt("clients", "nowhere")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nowhere: no such run" in done.stderr
