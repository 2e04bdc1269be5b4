"""`fedsgt retrain` and `fedsgt rejoin` as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from command import fedsgt, shown

from fedsgt.data import Columns, labels_of, load_dataset


def test_a_client_comes_back(run: str, tmp_path: Path) -> None:
    shown("unlearn", run, "--client", "1", "--all", "--yes")
    records = load_dataset("digits", Columns(("image",)), split="public", limit=12).records
    ids, images = [record.id for record in records], [record.content[0] for record in records]
    columns = {"id": ids, "label": labels_of(records), "image": images}
    pq.write_table(pa.table(columns), tmp_path / "new.parquet")
    text = shown("rejoin", run, "--client", "1", "--data", str(tmp_path / "new.parquet"), "--slices", "2")
    assert "client-1~2 with 12 records in groups 2" in text
    assert "none depends on deleted data" in shown("audit", run)
    left = fedsgt("unlearn", run, "--client", "client-1~2", "--records", "-", given=f"{ids[0]}\n")
    assert "1 record deleted, groups hit: 2" in left.stdout
    done = fedsgt("rejoin", run, "--client", "1", "--data", str(tmp_path / "nowhere.parquet"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_only_dead_modules_are_trained_again(run: str) -> None:
    before = {path.name for path in (Path(run) / "modules").iterdir()}
    told = json.loads(shown("unlearn", run, "--client", "0", "--slice", "0", "--json"))
    kept = {path.name for path in (Path(run) / "modules").iterdir()}
    assert kept < before
    assert f"{told['modules_died']} trained now" in shown("retrain", run)
    after = {path.name for path in (Path(run) / "modules").iterdir()}
    assert kept <= after
    assert len(after) == len(before)
    assert not after & (before - kept), "a key stands for the records: a dead module never comes back"


def test_a_policy_that_never_asks_is_told(run: str) -> None:
    shown("unlearn", run, "--client", "0", "--slice", "0")
    assert shown("retrain", run, "--if-due") == f"{run}: not due (policy: never)\n"
