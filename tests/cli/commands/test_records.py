"""`fedsgt records`: a client's own records, without deleted ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from command import fedsgt, shown
from tiny_world import World, trained, write_rows


def test_records_are_listed_for_their_client(run: str) -> None:
    listed = json.loads(shown("records", run, "--client", "0", "--json"))
    chosen = next(entry for entry in listed if entry["slice"] == 1)
    assert f"client-0\t1\t{chosen['group']}\t{chosen['id']}" in shown("records", run, "--client", "client-0")
    fedsgt("unlearn", run, "--client", "0", "--records", "-", given=f"\ufeff{chosen['id']}\r\n")
    fedsgt("unlearn", run, "--client", "0", "--records", "-", given=f"{chosen['id']}\r\n")
    left = json.loads(shown("records", run, "--client", "0", "--json"))
    assert left == [entry for entry in listed if entry != chosen]
    assert "is not in this run" in fedsgt("records", run, "--client", "x").stderr


def test_ids_do_not_steer_a_terminal_and_are_exact_elsewhere(tmp_path: Path, images: World) -> None:
    odd = replace(images.rows[0], id="r\x1b[2J\x07")
    data = write_rows(tmp_path / "data", [odd, *images.rows[1:]], "image")
    trained(tmp_path / "run", images.config(f"data.source={data}"))
    asked = ("records", str(tmp_path / "run"), "--client", odd.client)
    assert f"\t{odd.id}\n" in shown(*asked)
    on_terminal = fedsgt(*asked, on_terminal=True).stdout
    assert "\tr\\x1b[2J\\x07\n" in on_terminal
    assert "\x1b" not in on_terminal


def test_every_record_is_listed_once_in_its_slice(source: Path) -> None:
    listed = [
        entry
        for number in range(3)
        for entry in json.loads(shown("records", str(source), "--client", str(number), "--json"))
    ]
    assert len({entry["id"] for entry in listed}) == len(listed) == 120
    assert {entry["client"] for entry in listed} == {"client-0", "client-1", "client-2"}
    shows = json.loads(shown("show", str(source), "--json"))
    assert all(entry["group"] < shows["groups"] for entry in listed)
