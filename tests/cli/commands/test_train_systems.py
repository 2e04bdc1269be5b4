"""The compared systems by the commands that FedSGT itself has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import fedsgt, shown
from tiny_world import World

from fedsgt.config import SYSTEMS, to_toml
from fedsgt.runs.folder import open_run


@pytest.fixture
def file(images: World, tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(to_toml(images.config("plan.kind=tree", "plan.passes=3", "grouping.limits=2")))
    return str(path)


def test_fedcio_trained_deleted_from_served_and_retrained(images: World, file: str, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    chosen = ("--set", "grouping.groups=2", "--set", "plan.shards=2", "--set", "training.rounds=2")
    told = shown("train", file, "-o", run, "--system", "fedcio-retrain", *chosen)
    assert "2 modules of 2 sequences; 2 trained now" in told
    groups = open_run(Path(run)).description.group_of
    ids = tmp_path / "ids.txt"
    ids.write_text(f"{images.rows[0].id}\n")  # of client c0, whose cluster is the first
    done = json.loads(
        shown("unlearn", run, "--client", "c0", "--records", str(ids), "--no-retrain", "--json")
    )
    assert (done["modules_died"], done["live_modules"]) == (1, 1)
    assert len(served(run)) == 1, "the hit cluster is dropped"
    assert "1 trained now" in shown("retrain", run, "--if-due")
    assert len(served(run)) == 2
    assert open_run(Path(run)).description.group_of == groups
    assert "none depends on deleted data" in shown("audit", run)
    assert "1 trained now" in shown("unlearn", run, "--client", "c0", "--all", "--yes"), (
        "the policy is to retrain"
    )


def served(run: str) -> list[Any]:
    found: dict[str, Any] = json.loads(shown("predict", run, "--test"))
    assert sum(entry["weight"] for entry in found["sequences"]) == pytest.approx(1)
    return list(found["sequences"])


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_can_be_planned(system: str) -> None:
    text = shown("plan", "--system", system, "--requests", "3")
    assert ("training.rounds is 10" in text) == system.startswith(("fedavg", "fedretrain", "fedcio"))
    assert ("shards" in text) == (system in ("fedcio", "fedcio-retrain", "sisa", "s3t"))


def test_fedcio_is_planned_as_the_paper_counts_it() -> None:
    found = json.loads(shown("plan", "--system", "fedcio", "--json"))
    assert found["deletion_rate"] == pytest.approx(11.4167, abs=1e-4)
    assert found["plan"]["sequences"] == [[0], [1], [2], [3], [4]]
    assert found["per_client"]["most_rounds"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "FILE", "--system", "fedcoi"), "system: 'fedcoi' is unknown; one of fedsgt, fedavg"),
        (("plan", "--system", "x"), "system: 'x' is unknown"),
        (("config", "show", "--system", ""), "system: '' is unknown"),
        (("plan", "--system", "s3t", "--recommend"), "recommend: it compares FedSGT's own plans"),
        (("plan", "-s", "plan.shards=2", "--recommend"), "recommend: it compares FedSGT's own plans"),
        (("train", "FILE", "--system", "fedcio"), "grouping.groups: 5 is more than the 4 slices"),
    ],
)
def test_what_cannot_be_asked_for(arguments: tuple[str, ...], message: str, file: str) -> None:
    done = fedsgt(*(file if word == "FILE" else word for word in arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_plan_without_modules_goes_through_every_command(file: str, tmp_path: Path) -> None:
    """The system `ridge` trains nothing: its run has clients, groups, a ledger and deletions all the same."""
    run = str(tmp_path / "run")
    told = shown("train", file, "-o", run, "--system", "ridge")
    nothing = f"{run}: the plan has no modules, so nothing is to be trained\n"
    assert told.startswith(
        f"{nothing}4 statistics made now, from which heads are solved; making all those of"
    )
    assert shown("train", file, "-o", run, "--system", "ridge") == nothing
    page = shown("status", run)
    assert page.startswith(
        f"{run}: the plan has no modules; the bare backbone answers with a head of 48 records"
    )
    assert "\n\n\n" not in page
    assert json.loads(shown("status", run, "--json"))["urgency"] == "none"
    lines = shown("show", run).splitlines()
    assert (lines[0], "modules    none" in lines) == (f"{run}: the plan has no modules", True)
    assert "heads      solved from statistics" in lines
    assert not any(line.startswith(("sequences", "on disk")) for line in lines)
    refused = fedsgt("export", run, "--sequence", "0")
    assert (refused.returncode, "there is no sequence to export" in refused.stderr) == (2, True)
    before = shown("unlearn", run, "--client", "c0", "--slice", "0", "--dry-run")
    assert "would destroy  0 modules" in before
    assert "the plan has no modules; the bare backbone would go on answering" in before
    assert "live modules" not in before
    done = json.loads(shown("unlearn", run, "--client", "c0", "--slice", "0", "--json"))
    assert (done["modules_died"], done["live_modules"]) == (0, 0)
    verified = shown("verify", run)
    assert "4 statistics of 1 chain made again: the same, bit for bit" in verified
    assert "the run serves no module at ledger position" in verified
    assert "none depends on deleted data" in shown("audit", run)
    shown("report", run)
    assert "The plan has no modules; the bare backbone answers" in (Path(run) / "report.html").read_text()
    assert shown("retrain", run) == nothing
    assert open_run(Path(run)).live().dead == frozenset(), "the description is without the deleted slice"
    shown("unlearn", run, "--client", "c1", "--all", "--yes")
    assert "the plan has no modules" in shown("status", run)
    assert shown("copy", run, str(tmp_path / "copy")).startswith(
        f"{tmp_path / 'copy'}: a copy with 0 modules"
    )
    refused = fedsgt("forgetting", run)
    assert refused.returncode == 2
    assert "has no modules, so there is nothing to attack" in refused.stderr
    for client in ("c0", "c2", "c3"):
        shown("unlearn", run, "--client", client, "--all", "--yes")
    assert shown("status", run).startswith(
        f"{run}: EXHAUSTED: no record is left, nothing is served\nNo record"
    )
    assert "heads      none, as no record is left to solve one from" in shown("show", run)
    shown("report", run)
    assert "Exhausted: no record is left, nothing is served." in (Path(run) / "report.html").read_text()


def test_a_plan_without_modules_is_planned_as_that() -> None:
    found = json.loads(shown("plan", "--system", "ridge", "--json"))
    assert (found["plan"]["modules"], found["cost"]["passes"], found["storage_bytes"]) == (0, 0, 0)
    assert (found["deletion_rate"], found["deletion_rate_clients"]) == (0, 0)
    assert "the plan has no modules" in " ".join(shown("plan", "--system", "ridge").split())
