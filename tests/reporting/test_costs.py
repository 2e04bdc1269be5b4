"""Costs in a report: times of modules, each once, and the rounds and bytes of a client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from pathlib import Path

import pytest
from html_page import Page
from paper_run import delete, describe, fill, paper_run

from fedsgt.reporting.costs import Costs, LineFit, TrainingTime, fit_line, run_costs
from fedsgt.reporting.report import write_report
from fedsgt.runs.folder import RunFolder

ROTATIONS = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]


def made(path: Path, sequences: Sequence[Sequence[int]], *overrides: str) -> RunFolder:
    """Groups of 20, 40 and 60 records; a module takes half a second and a hundredth for each record."""
    folder = paper_run(path, describe(sequences, [10, 20, 30]), *overrides)
    fill(folder)
    write_times(folder, range(1, folder.config.training.rounds + 1))
    return folder


def write_times(folder: RunFolder, rounds: Iterable[int], slower: float = 1.0) -> None:
    with (folder.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        for entry in folder.description.modules:
            records = sum(20 * (group + 1) for group in entry.groups)
            told = {"event": "update", "module": entry.key, "records": records // 2}
            told["seconds"] = slower * (0.25 + 0.005 * records)
            for number in rounds:
                for client in ("a", "b"):
                    file.write(json.dumps({**told, "step": number, "client": client}) + "\n")
            file.write(json.dumps({"event": "round", "module": entry.key, "step": 1, "seconds": 99.0}) + "\n")


def costs_of(folder: RunFolder) -> Costs:
    return run_costs(folder, folder.live(), folder.present())


def test_times_add_up_by_depth_and_by_sequence(tmp_path: Path) -> None:
    found = costs_of(made(tmp_path / "run", ROTATIONS))
    # Records by depth: each group once, each pair once, all three times.
    assert [part.records for part in found.depths] == [120, 240, 360]
    assert [part.seconds for part in found.depths] == pytest.approx([1.5 + 1.2, 1.5 + 2.4, 1.5 + 3.6])
    assert astuple(found.whole) == pytest.approx((9, 9, 720, 4.5 + 7.2))
    assert sum(part.seconds for part in found.sequences) == pytest.approx(found.whole.seconds)
    assert found.a_sequence == pytest.approx(11.7 / 3)
    assert (found.modules, found.passes) == (9, 6.0)
    assert found.line is not None
    assert astuple(found.line) == pytest.approx((0.5, 0.01, 1.0))


def test_a_shared_module_counts_where_it_is_first_trained(tmp_path: Path) -> None:
    found = costs_of(made(tmp_path / "run", [(0, 1, 2), (0, 1), (0, 2), (0, 1, 2)]))
    assert [(part.modules, part.records) for part in found.sequences] == [(3, 200), (0, 0), (1, 80), (0, 0)]
    assert astuple(found.whole) == pytest.approx((4, 4, 280, 2.0 + 2.8))


def test_the_formula_stays_away_where_sequences_share_modules(tmp_path: Path) -> None:
    found = costs_of(paper_run(tmp_path / "run", describe([(0, 1, 2), (0, 2, 1)], [10, 20, 30]))).per_client
    assert (found.paper_rounds, found.corrected_rounds) == (None, None)


def test_every_round_counts_and_one_begun_anew_counts_once(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", ROTATIONS, "training.rounds=3")
    write_times(folder, [2], slower=2.0)
    found = costs_of(folder)
    assert found.passes == 18.0
    assert astuple(found.whole) == pytest.approx((9, 9, 3 * 720, 4 * 11.7))
    assert found.per_client.rounds == 18.0


def test_times_that_are_not_whole_or_not_believed_are_left_out(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe(ROTATIONS, [10, 20, 30]), "training.rounds=2")
    fill(folder)
    write_times(folder, [1])
    key = folder.description.modules[0].key
    odd: list[object] = [None, -1.0, "x", 1e300, float("inf")]
    told = [{"event": "update", "module": key, "step": 2, "client": "a", "records": 1}]
    told += [{**told[0], "seconds": seconds} for seconds in odd]
    lines = [*(json.dumps(line) for line in told), "{", "[]", json.dumps({"module": key})]
    with (folder.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    assert astuple(costs_of(folder).whole) == pytest.approx((9, 0, 0, 0.0))
    assert "No times are on record" in Page(write_report(folder)).said


def test_times_go_with_their_modules(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", ROTATIONS)
    delete(folder, 2)
    found = costs_of(folder)
    assert astuple(found.whole) == pytest.approx((9, 3, 20 + 60 + 40, 1.5 + 1.2))
    assert found.a_sequence is None
    page = Page(write_report(folder))
    assert "Training took 2.70 seconds , for the 3 of 9 modules that are there" in page.said
    assert "The straight line is 10 s for 1,000 records and 0.5 s for a module" in page.said
    assert "0 2 of 3 80 1.80 1 0 of 3 2 1 of 3 40 0.90" in page.said  # sequences


def test_what_the_plan_asks_of_a_client(tmp_path: Path) -> None:
    found = costs_of(made(tmp_path / "run", ROTATIONS)).per_client
    # From its group on a client is in, at each place of it once; two frozen modules in each sequence.
    assert (found.rounds, found.least_rounds, found.most_rounds, found.fetched) == (6.0, 6, 6, 6.0)
    assert (found.module_bytes, found.down, found.up) == (4, 48.0, 24.0)
    assert found.paper_rounds == pytest.approx(12 * (1 / 6 + 4 / 9))
    assert found.corrected_rounds == pytest.approx(12 * (1 / 10 + 8 / 15))


def test_a_client_without_records_takes_no_part(tmp_path: Path) -> None:
    about = describe(ROTATIONS, [10, 20, 0])
    folder = paper_run(tmp_path / "run", about)
    fill(folder, lambda prefix: 2 not in prefix)
    assert costs_of(folder).per_client.least_rounds == 0


def test_nothing_trained_is_no_error(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe(ROTATIONS, [10, 20, 30]))
    found = costs_of(folder)
    assert (found.whole.timed, found.per_client.module_bytes, found.line) == (0, None, None)
    assert "No times are on record" in Page(write_report(folder)).said


def test_no_line_through_fewer_than_three_numbers_of_records() -> None:
    assert fit_line([TrainingTime(5, 1.0), TrainingTime(5, 2.0), TrainingTime(7, 1.0)]) is None
    points = [TrainingTime(records, 1.0) for records in (5, 6, 7)]
    assert fit_line(points) == LineFit(1.0, 0.0, 1.0)


@pytest.mark.parametrize(("window", "passes", "used"), [("1", 3.0, 120), ("2", 5.0, 240), ("own", 3.0, 0)])
def test_a_window_counts_in_passes_records_and_rounds(
    tmp_path: Path, window: str, passes: float, used: int
) -> None:
    """Metrics say how many records an epoch used, if they are fewer than the client has."""
    folder = made(tmp_path / "run", ROTATIONS, f"training.window={window}")
    metrics = folder.path / "metrics.jsonl"
    depths = {entry.key: len(entry.groups) for entry in folder.description.modules}
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    for told in lines:
        if told["event"] == "update" and window != "own" and depths[told["module"]] > int(window):
            told["used"] = told["records"] * int(window) // depths[told["module"]]
    metrics.write_text("".join(json.dumps(told) + "\n" for told in lines))
    found, without = costs_of(folder), costs_of(made(tmp_path / "without", ROTATIONS))
    assert found.passes == passes
    if window != "own":  # there the lines themselves have fewer records
        assert found.depths[2].records == used
    assert (found.per_client.rounds < without.per_client.rounds) == (window == "own")
    said = {"1": "as many records as 1 group", "2": "as many records as 2 groups", "own": "its own group"}
    assert said[window] in Page(write_report(folder)).said


def test_a_plan_without_modules_costs_nothing(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([], [10, 20]), "plan.kind=none")
    found = run_costs(folder, folder.live(), frozenset())
    assert (found.depths, found.sequences) == ([], [])
    assert (found.modules, found.passes) == (0, 0)
