"""The documents are true: their commands and their Python run, and what they list is what there is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer
from documents import COMMAND, PAGES, README, ROOT, blocks, commands, run_command

from fedsgt import cli, theory
from fedsgt.config import Config
from fedsgt.plans import KINDS


@pytest.fixture(scope="module")
def page_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.mark.parametrize(("page", "line"), commands(PAGES))
def test_every_command_runs(page: str, line: str, page_folders: Path) -> None:
    run_command(page, line, page_folders)


@pytest.mark.parametrize(("page", "code"), blocks("python", PAGES))
def test_every_python_example_runs(page: str, code: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True)


def test_every_setting_is_documented_with_its_description() -> None:
    text = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    for section, field in Config.model_fields.items():
        model = field.annotation
        assert model is not None
        for key, inner in model.model_fields.items():
            assert f"| `{section}.{key}` | {inner.description} |" in text


def test_every_option_of_plan_is_documented() -> None:
    text = (ROOT / "docs/planning.md").read_text(encoding="utf-8")
    command = typer.main.get_group(cli.app).commands["plan"]
    options = [option for parameter in command.params for option in parameter.opts]
    for option in options:
        if option.startswith("--"):
            assert f"`{option}" in text, option


def test_every_key_of_the_json_is_documented() -> None:
    text = (ROOT / "docs/planning.md").read_text(encoding="utf-8")
    arguments = ["plan", "--json", "--requests", "3", "--recommend", "--max-passes", "2"]
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    for key in [*result, *result["plan"], *result["cost"], *result["per_client"], *result["recommendation"]]:
        assert f"`{key}`" in text, key


def test_every_kind_of_plan_and_every_formula_is_documented() -> None:
    planning, formulas = (
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("planning.md", "theory.md")
    )
    assert all(f"| `{kind}` |" in planning for kind in KINDS)
    assert all(f"`{name}`" in formulas for name in theory.__all__)


def test_every_command_is_documented() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in [README, *PAGES])
    group = typer.main.get_command(cli.app)
    assert isinstance(group, click.Group)
    for name in group.commands:
        assert f"fedsgt {name}" in text, name


def test_links_between_documents_lead_somewhere() -> None:
    for page in [README, *PAGES]:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    phony = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert listed == set(phony[0].split())
