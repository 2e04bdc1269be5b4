"""`fedsgt plan` as a person and as a program use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import fedsgt, shown

from fedsgt.config import load
from fedsgt.planning import recommend

QUICK = ("--clients", "4", "--slices", "3", "--groups", "3", "--requests", "6")


@pytest.fixture(autouse=True)
def _few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search few sizes: `tests/planning/test_recommend.py` has what is found."""
    monkeypatch.setattr(recommend, "GROUPS", (4, 6, 8))


def as_json(*arguments: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(shown("plan", "--json", *arguments))
    return result


def test_the_papers_setting_fits_one_screen() -> None:
    command = Path(sys.executable).parent / "fedsgt"  # as installed
    text = subprocess.run([command, "plan"], capture_output=True, text=True, check=True).stdout
    assert len(text.splitlines()) <= 24
    assert max(len(line) for line in text.splitlines()) <= 80
    for part in (
        "10 clients",
        "29.29 requests",
        "55 passes",
        "FedAvg 10",
        "FedRetrain 310",
        "rounds",
        "240 MB",
    ):
        assert part in text


def test_json_holds_the_curves_and_costs() -> None:
    result = as_json()
    assert result["deletion_rate"] == pytest.approx(29.2897, abs=1e-4)
    assert result["cost"]["passes"] == 55
    assert result["cost"]["fedretrain_passes"] == 310
    assert result["storage_bytes"] == 240_000_000
    assert len(result["survival"]) == len(result["live_share"]) == 31
    assert result["survival"][16] >= 0.9 > result["survival"][17]
    assert result["live_groups_stderr"] == [0.0] * 31


def test_whole_clients_end_service_sooner() -> None:
    single, whole = as_json("--requests", "10"), as_json("--requests", "10", "--client-requests", "10")
    assert whole["survival"][6] < single["survival"][6]
    assert whole["deletion_rate_clients"] < 7 < single["deletion_rate"]


def test_a_prior_from_a_file_is_used(tmp_path: Path) -> None:
    path = tmp_path / "prior.txt"
    path.write_text("0.7 0.1\n0.1, 0.1\n")
    uneven = as_json(*QUICK, "--prior", str(path))
    assert uneven["survival"] == as_json(*QUICK, "--prior", "0.7,0.1,0.1,0.1")["survival"]
    assert uneven["survival"] != as_json(*QUICK)["survival"]


def test_an_estimate_shows_its_error() -> None:
    arguments = (*QUICK, "--client-requests", "2", "--prior", "0.7,0.1,0.1,0.1")
    assert "±" in shown("plan", *arguments)
    assert as_json(*arguments)["survival_stderr"][-1] > 0


def test_a_file_flags_and_overrides_together(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[grouping]\ngroups = 6\n[plan]\nbudget = 2\n")
    result = as_json(str(path), "--budget", "3", "-s", "grouping.slices=2", "-s", "plan.budget=4")
    assert result["plan"]["groups"] == 6
    assert len(result["plan"]["sequences"]) == 3  # a flag is the nearest word
    assert result["setting"]["slices"] == [2] * 10


def test_unequal_slices_and_limits() -> None:
    result = as_json(
        "--clients", "3", "--slices", "4,2,2", "--groups", "4", "--limits", "2,2,2", "--requests", "4"
    )
    assert result["setting"]["slices"] == [4, 2, 2]


def test_a_recommendation_explains_itself_and_can_be_looked_at() -> None:
    done = fedsgt("plan", "--requests", "12", "--client-requests", "2", "--recommend", "--max-passes", "4")
    assert done.returncode == 0, done.stderr
    assert "Searching settings" in done.stderr
    assert "Recommended: Take " in done.stdout
    told = " ".join(done.stdout.split())  # lines may break anywhere
    assert " grouping, window 1, for 4 passes: " in told
    again = done.stdout.split("Look closer with: fedsgt ")[1].split()
    assert again[:5] == ["plan", "--requests", "12", "--client-requests", "2"]  # what was typed is kept
    assert again[-2:] == ["--window", "1"]
    taken = told.split("alive after 12 requests with probability ")[1][:4]
    result: dict[str, Any] = json.loads(shown(*again, "--json"))
    assert f"{result['survival'][-1]:.2f}" == taken


def test_a_window_that_was_given_is_kept_by_a_recommendation() -> None:
    search = ("--requests", "12", "--recommend", "--max-passes", "4")
    assert as_json(*search)["recommendation"]["window"] == 1
    assert as_json(*search, "--window", "2")["recommendation"]["window"] == 2
    assert as_json("--requests", "12", "--recommend", "--groups", "4")["recommendation"]["window"] is None


@pytest.mark.parametrize(("window", "passes"), [("1", 10), ("2", 19), ("4", 34), ("10", 55), ("own", 10)])
def test_a_window_costs_what_the_theory_says(window: str, passes: float) -> None:
    result, without = as_json("--window", window), as_json()
    assert result["cost"]["passes"] == passes
    assert result["setting"]["window"] == (window if window == "own" else int(window))
    assert result["live_groups"] == without["live_groups"]
    fewer = result["per_client"]["rounds"] < without["per_client"]["rounds"]
    assert fewer == (window == "own")
    assert f"over the data with window {window}, once" in shown("plan", "--window", window)


def test_a_recommendation_in_json() -> None:
    result = as_json("--requests", "12", "--recommend", "--max-passes", "4")["recommendation"]
    assert result["reason"].count(". ") == 1
    assert result["cost"]["passes"] <= 4
    assert {"slices", "grouping", "plan", "survival", "meets_target"} <= set(result)


SEARCH = ("--requests", "6", "--recommend", "--max-passes", "3", "--target", "0.5")


def test_a_recommendation_is_written_as_a_configuration(tmp_path: Path) -> None:
    given, new = tmp_path / "given.toml", tmp_path / "new one.toml"
    given.write_text(
        '[data]\nsource = "a.parquet"\nclients = 6\n[plan]\nbudget = 7\nseed = 3\n[training]\nepochs = 9\n'
    )
    done = fedsgt("plan", str(given), *SEARCH, "-s", "peft.rank=4", "--write", str(new))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"Wrote {new}. Next: fedsgt train '{new}'\n")
    best = as_json(str(given), *SEARCH)["recommendation"]
    run = load(new)
    assert (run.grouping.groups, run.grouping.slices) == (best["plan"]["groups"], best["slices"])
    assert (run.grouping.method, run.plan.kind) == (best["grouping"], best["plan"]["kind"])
    assert as_json(str(new), "--requests", "6")["plan"] == best["plan"]
    # All else is as it was given, and what was not given is not in the file.
    assert (run.data.source, run.data.clients, run.plan.seed) == ("a.parquet", 6, 3)
    assert (run.training.epochs, run.peft.rank, run.plan.budget) == (9, 4, None)
    assert "learning_rate" not in new.read_text()
    assert new.read_text().startswith("# Written by fedsgt plan --recommend. Take ")


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[data]\nclients = 6\n")
    done = fedsgt("plan", str(file), *SEARCH, "--write", str(file))
    assert done.stderr == (
        f"fedsgt: {file}: is there already; give another name, or --force to write over it\n"
    )
    assert file.read_text() == "[data]\nclients = 6\n"
    told = fedsgt("plan", str(file), *SEARCH, "--write", str(file), "--force", "--json")
    assert json.loads(told.stdout)["recommendation"]
    assert told.stderr.endswith(f"Wrote {file}. Next: fedsgt train {file}\n")
    assert load(file).data.clients == 6
    assert "[grouping]" in file.read_text()


def test_the_setting_given_is_written_if_it_is_the_best(tmp_path: Path) -> None:
    once, twice = tmp_path / "once.toml", tmp_path / "twice.toml"
    shown("plan", *SEARCH, "--write", str(once))
    assert "Recommended: Keep the setting given" in shown("plan", str(once), *SEARCH, "--write", str(twice))
    assert load(once) == load(twice)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--write", "x.toml"], ["write", "--recommend"]),
        (["--recommend", "--force"], ["force", "--write FILE"]),
        (["--recommend", "--write", "."], ["is a folder"]),
        (["--recommend", "--write", "no/such/x.toml"], ["the folder no/such does not exist"]),
        (["--groups", "51"], ["grouping.groups", "51", "50"]),
        (["--clients", "5", "--slices", "4", "--limits", "1"], ["client 0", "4 slices", "1 group"]),
        (["--prior", "0.5,0.4,0.1"], ["prior", "3", "10"]),
        (["--prior", ",".join(["0.2"] * 10)], ["prior", "sum", "2"]),
        (["--prior", "a,b"], ["prior", "a,b"]),
        (["--requests", "-1"], ["requests", "-1"]),
        (["--requests", "5", "--client-requests", "6"], ["client requests", "6", "5"]),
        (["--client-requests", "11"], ["client requests", "11", "10"]),
        (["--clients", "0"], ["data.clients", "0"]),
        (["--budget", "0"], ["plan.budget", "0"]),
        (["--plan", "oak"], ["plan.kind", "oak", "tree"]),
        (["--passes", "3"], ["plan.passes", "3", "5.5"]),
        (["--module-size", "big"], ["module size", "big", "2.4MB"]),
        (["--fedavg-rounds", "0"], ["fedavg rounds", "0"]),
        (["--recommend", "--target", "1.5"], ["target", "1.5"]),
        (["--recommend", "--max-passes", "0.9"], ["max passes", "0.9", "1"]),
        (["--recommend", "--max-passes", "nan"], ["max passes", "nan"]),
        (["--target", "0.5"], ["--recommend"]),
        (["--max-passes", "9"], ["--recommend"]),
        (["--plot", "curves.xyz"], ["plot", "curves.xyz", ".svg"]),
        (["--plot", "."], ["plot", ".svg"]),
        (["--requests", "1000000000"], ["requests", "1000000000", "100000"]),
        (["--budget", "1000000000"], ["plan.budget", "1000000000", "10000"]),
        (["--clients", "99999999999"], ["data.clients", "99999999999", "10000000"]),
        (["--module-size", "2.4"], ["module size", "2.4"]),
        (["--prior", "none.txt"], ["prior", "none.txt", "file"]),
        (["--prior", ""], ["prior", "list of numbers"]),
        (["--groups", "many"], ["--groups", "many", "whole number"]),
        (["--oak"], ["--oak"]),
        (["--plot", "no/such/folder/curves.svg"], ["plot", "no/such/folder"]),
        (["none.toml"], ["none.toml", "no such file"]),
        (["--plan", "matching", "--budget", "11"], ["budget", "11", "10"]),
    ],
)
def test_impossible_input_is_one_line_and_exit_code_2(
    arguments: list[str], parts: list[str], tmp_path: Path
) -> None:
    done = fedsgt("plan", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr
    assert list(tmp_path.iterdir()) == []  # nothing half written


PURPOSE = ("--clients", "6", "--max-passes", "4", "--recommend")


def test_a_purpose_decides_what_is_searched_for() -> None:
    found = as_json(*PURPOSE, "--for", "clients")
    assert found["stream"] == {"requests": 3, "whole_clients": 3}
    best = found["recommendation"]
    assert best["deletion_rate_clients"] > found["deletion_rate_clients"]
    told = shown("plan", *PURPOSE, "--for", "clients")
    assert "no module is live after about" in " ".join(told.partition("Recommended")[2].split())
    look = next(line for line in told.splitlines() if line.startswith("Look closer with:"))
    assert look.count("--requests 3 --client-requests 3") == 1
    assert "--for" not in look


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--for", "both"), "give --recommend with it"),
        (("--for", "both", "--recommend", "--client-requests", "2"), "leave --client-requests out"),
        (("--for", "clients", "--recommend", "--requests", "9"), "leave --requests out"),
    ],
)
def test_a_purpose_that_says_nothing_is_refused(options: tuple[str, ...], message: str) -> None:
    done = fedsgt("plan", *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_the_screen_says_how_many_whole_clients_are_withstood() -> None:
    told = shown("plan", *QUICK)
    rate = as_json(*QUICK)["deletion_rate_clients"]
    assert f"no module is live after about {rate:.1f} of 4 clients left whole" in " ".join(told.split())
