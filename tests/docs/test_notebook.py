"""The example notebook runs from start to end in a kernel of its own, as a reader runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from fedsgt.stack import profile

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def read() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the notebook with its outputs; an error in a cell is raised here."""
    folder, notebook = tmp_path_factory.mktemp("notebook"), read()
    # Before the last cell, which ends the helper process.
    asked = nbformat.v4.new_code_cell("run._session.helper is not None")
    notebook.cells.insert(len(notebook.cells) - 1, asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        for name in profile.environment():  # a reader's kernel has none of them
            patch.delenv(name, raising=False)
        NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
        ).execute()
    return notebook


def shown(notebook: Any, code: str) -> dict[str, str]:
    """Return what the cell that begins with this code shows, by type."""
    cell = next(one for one in notebook.cells if one.source.startswith(code))
    (output,) = [one for one in cell.outputs if one.output_type == "execute_result"]
    return dict(output.data)


def test_no_output_is_stored() -> None:
    assert [cell for cell in read().cells if cell.cell_type == "code" and cell.outputs] == []


@pytest.mark.slow
def test_torch_is_imported_first_and_the_work_is_done_by_a_helper(executed: Any) -> None:
    assert executed.cells[1].source.startswith("import torch")
    assert shown(executed, "run._session")["text/plain"] == "True"


@pytest.mark.slow
def test_the_record_is_deleted_and_that_is_proved(executed: Any) -> None:
    receipt = shown(executed, "receipt = run.unlearn")
    assert receipt["text/plain"].startswith("<Receipt no. 4, complete: 1 record deleted, groups hit: ")
    assert "hospital-2" in receipt["text/html"]
    assert shown(executed, "run.verify")["text/plain"].startswith("<Verification passed: ")
    assert shown(executed, "run.audit")["text/plain"] == "True"


@pytest.mark.slow
def test_the_comparison_is_shown(executed: Any) -> None:
    assert shown(executed, "found = fedsgt.compare")["text/plain"].startswith(
        "<Comparison over 3 requests (slices), 1 seed: mean accuracy fedsgt "
    )
    assert "image/png" in shown(executed, "found.plot")
    assert shown(executed, "found.summary")["text/plain"].split()[:4] == [
        "system",
        "fedavg",
        "fedcio",
        "fedsgt",
    ]


@pytest.mark.slow
def test_nothing_was_said_on_standard_error(executed: Any) -> None:
    streams = [
        output
        for cell in executed.cells
        for output in cell.get("outputs", ())
        if output.output_type == "stream"
    ]
    assert streams == []
