"""What a request changes: whose records go, which files of the run, and which of its owners."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_deletions import record_in
from tiny_world import World, trained, write_rows

from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.serving.evaluation import evaluate
from fedsgt.unlearning.changes import ClientShare, client_shares, planned_changes
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import preview, unlearn


@pytest.fixture
def folder(images: World, tmp_path: Path) -> RunFolder:
    data = write_rows(tmp_path / "data", images.rows, "image")
    trained(tmp_path / "run", images.config(f"data.source={data}", "data.erase=rewrite"))
    folder = open_run(tmp_path / "run")
    evaluate(folder)
    return folder


def files_of(folder: RunFolder) -> dict[str, bytes]:
    return {
        path.relative_to(folder.path).as_posix(): path.read_bytes()
        for path in folder.path.rglob("*")
        if path.is_file()
    }


def test_the_plan_names_exactly_what_the_deletion_changes(images: World, folder: RunFolder) -> None:
    client, record = record_in(images, folder, 1)
    wanted = [Deletion(client, records=(record,))]
    _, after, body = preview(folder, wanted)
    planned, before = planned_changes(folder, after, body), files_of(folder)
    unlearn(folder, wanted)
    now = files_of(folder)
    assert set(planned.destroyed) == {name for name in before if name not in now}
    assert "evaluation.json" in planned.destroyed
    assert planned.rewritten == ["metrics.jsonl"]
    assert now["metrics.jsonl"] != before["metrics.jsonl"]
    own = ("ledger", "certificates", "cache", "signing", "store.lock", "lock")
    others = {name for name in now if before.get(name) != now[name] and not name.startswith(own)}
    assert others == {"metrics.jsonl"}
    assert planned.sources == [{"file": "train.parquet", "action": "rewritten", "rows": 1, "reason": None}]


def test_shares_say_what_each_client_loses_and_has_left(images: World, folder: RunFolder) -> None:
    held = [row.id for row in images.rows if row.client == "c0"]
    _, after, body = preview(folder, [Deletion("c0", records=tuple(held[:2])), Deletion("c1")])
    one, two = client_shares(after, body)
    assert (one.client, one.scope, one.records, one.left) == ("c0", "records", 2, len(held) - 2)
    assert two == ClientShare("c1", "client", 12, [0, 1], 0)
