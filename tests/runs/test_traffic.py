"""The traffic of a run's trainings: it adds up, and the paper's number stands beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper_run import describe, paper_run

from fedsgt.engine.flower.traffic import ClientTraffic, Traffic
from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.traffic import add_traffic, paper_rounds, read_traffic


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return paper_run(tmp_path / "run", describe([(0, 1), (1, 0)], [5, 5]))


def test_trainings_add_up_by_client(folder: RunFolder) -> None:
    assert read_traffic(folder) is None
    add_traffic(folder, Traffic())  # nothing went over a network
    assert read_traffic(folder) is None
    add_traffic(folder, Traffic(2, {"a": ClientTraffic(2, 3, 400, 100)}))
    add_traffic(folder, Traffic(1, {"a": ClientTraffic(1, 1, 50, 7), "b": ClientTraffic(1, 2, 60, 9)}))
    assert read_traffic(folder) == Traffic(
        3, {"a": ClientTraffic(3, 4, 450, 107), "b": ClientTraffic(1, 2, 60, 9)}
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rounds": 1, "clients": {"a": {"sent": 1}}}'])
def test_a_damaged_file_is_named_in_one_line(folder: RunFolder, text: str) -> None:
    (folder.path / "traffic.json").write_text(text)
    with pytest.raises(
        InputError, match=r"^[^\n]*traffic\.json: cannot be read \([^\n]*\); it may be removed$"
    ):
        read_traffic(folder)


def test_the_papers_number_needs_sequences_and_clients_that_are_alike() -> None:
    rotations = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    balanced = describe(rotations, [5, 5, 5])
    found = paper_rounds(balanced, 1)
    assert found is not None
    assert paper_rounds(balanced, 4) == 4 * found
    assert paper_rounds(describe([(0, 1, 2), (1, 2)], [5, 5, 5]), 1) is None
    one_slice = balanced.clients[0].model_copy(update={"slices": ["a"], "records": [1]})
    uneven = {"clients": [one_slice, *balanced.clients[1:]], "group_of": [0, 1, 1, 2, 2]}
    assert paper_rounds(balanced.model_copy(update=uneven), 1) is None


def test_the_papers_number_for_one_group() -> None:
    """Every client is in the only group, and so joins its only module's rounds."""
    assert paper_rounds(describe([(0,)], [5]), 3) == 3
