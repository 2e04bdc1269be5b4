"""The documents are true: their commands and their Python run, and what they list is what there is."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from fedsgt import cli, theory
from fedsgt.config import Run
from fedsgt.plans import KINDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = Path(sys.executable).parent / "fedsgt"


def blocks(language: str) -> list[tuple[str, str]]:
    """Every fenced block of this language, with the page it is from."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(page.name, block) for page in PAGES for block in fence.findall(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def page_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.mark.parametrize(
    ("page", "line"), [(p, line) for p, block in blocks("sh") for line in block.splitlines()]
)
def test_every_command_runs(page: str, line: str, page_folders: Path) -> None:
    """In the page's order and in one folder for each page: later commands use what earlier ones made."""
    name, *arguments = shlex.split(line)
    assert name == "fedsgt"
    folder = page_folders / page
    folder.mkdir(exist_ok=True)
    done = subprocess.run([COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_every_python_example_runs(page: str, code: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True)


def test_every_setting_is_documented_with_its_description() -> None:
    text = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    for section, field in Run.model_fields.items():
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


def test_links_between_documents_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    phony = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert listed == set(phony[0].split())
