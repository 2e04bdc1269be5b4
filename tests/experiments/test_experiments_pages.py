"""Each experiment has its page: the command, the paper beside ours, and tables and plots that are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from experiments.harness.pages import BEGIN, END, results_text
from experiments.harness.pool import cells_of, experiment
from experiments.harness.results import Results
from experiments.harness.settings import HERE, NAMES, load_settings
from fedsgt.config import load

PAGE = (HERE / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_its_page(name: str) -> None:
    text = (HERE / name / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {NAMES.index(name) + 1}. ")
    assert f"python -m experiments {name}" in text
    assert "paper" in text
    assert text.index(BEGIN) < text.index(END)
    assert f"[{name}]({name}/README.md)" in PAGE


@pytest.mark.parametrize(
    "file", sorted(HERE.glob("**/*.md")), ids=lambda file: file.parent.name + "/" + file.name
)
def test_pages_link_what_is_there(file: Path) -> None:
    if ".work" in file.parts:
        return
    text = file.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (file.parent / target).exists(), f"{file}: {target}"


@pytest.mark.parametrize("name", NAMES)
def test_the_tasks_that_it_names_are_runs(name: str) -> None:
    settings = tomllib.loads((HERE / name / "config.toml").read_text(encoding="utf-8"))
    for task in [*settings["tasks"], *settings["quick"].get("tasks", [])]:
        load(HERE / "tasks" / f"{task}.toml")
    assert settings["seeds"] >= 5


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_its_results_say(name: str) -> None:
    """Written by hand, or left from other results, it would tell something that was not measured."""
    settings = load_settings(name)
    results = Results.read(HERE / name / "results").only(cells_of(settings), settings.seeds)
    report = experiment(name).report(settings, results)
    assert results_text(report, results) in (HERE / name / "README.md").read_text(encoding="utf-8")
    assert {plot.name for plot in report.plots} == {
        file.stem for file in (HERE / name / "plots").glob("*.png")
    }
