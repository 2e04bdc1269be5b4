"""`fedsgt demo`: which deletions it chooses; the whole of it is played by tests/docs/test_readme.py."""

from __future__ import annotations

import json
from pathlib import Path

from command import fedsgt, shown

from fedsgt.cli.commands.demo import RECORDS, _deletions
from fedsgt.cli.commands.init import STARTER
from fedsgt.runs.folder import open_run


def files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


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


SMALL = (
    *("-s", "grouping.groups=3"),
    *("-s", "data.limit=160"),
    *("-s", "data.test_limit=40"),
    *("-s", "training.epochs=1"),
    *("-s", "engine.workers=0"),
)


def test_a_demo_of_another_version_is_left_alone(tmp_path: Path) -> None:
    """The default's folder is taken by a demo of the older starter's rotations."""
    older = ("-s", "plan.kind=rotations", "-s", "grouping.limits=")
    done = fedsgt("train", str(STARTER), *SMALL, *older, "-o", "runs/demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    before = {file: file.read_bytes() for file in files(tmp_path / "runs" / "demo")}
    first = fedsgt("demo", *SMALL, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines()[0] == (
        "runs/demo: something else, or a demo that is finished or of another version or settings, left as it "
        "is; this one is in runs/demo-2"
    )
    assert {file: file.read_bytes() for file in files(tmp_path / "runs" / "demo")} == before
    assert "$ fedsgt verify runs/demo-2" in first.stdout
    assert (tmp_path / "runs" / "demo-2" / "report.html").exists()
    done_before = {file: file.read_bytes() for file in files(tmp_path / "runs" / "demo-2")}
    again = fedsgt("demo", *SMALL, "-o", "runs/demo-2", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout == (
        "runs/demo-2: this demo is finished; nothing was changed. Give another folder with -o\n"
    )
    assert {file: file.read_bytes() for file in files(tmp_path / "runs" / "demo-2")} == done_before


def test_a_folder_that_was_named_is_not_exchanged_for_another(trained: Path) -> None:
    done = fedsgt("demo", "-o", str(trained))
    assert done.returncode == 2
    assert "holds a run of another configuration" in done.stderr
