"""docs/paper.md leaves nothing of the paper out, and what it names is there: files, code, tests, settings."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from documents import ROOT

from fedsgt.config import Config

PAGE = ROOT / "docs/paper.md"
TEXT = PAGE.read_text(encoding="utf-8")
LINKS = sorted(set(re.findall(r"\[([^\]]+)\]\((?!https?://)([^)#]+)", TEXT)))
EXPERIMENTS = (
    *("training", "unlearning", "theory", "cost", "budget", "slices"),
    *("selection", "peft", "grouping", "plans", "retraining", "forgetting"),
)
# Items of the paper, by kind: its labels, and names in their style for those that have none, or one with a
# stroke, which would end a cell.
NAMES = {
    "sec": """introduction, preliminaries, problem, goals, existing, hardness, bac_text, sequences,
        communication, comparison, setup, training, unlearning_performance, efficiency, budget,
        selection, conclusion, appendix_deletionrate, appendix_performance""",
    "subsec": "grouping, SGT, unlearning, theo_deletion_rate, theory_performance, overhead, train_complexity",
    "subsubsec": "ablation_client_slice",
    "app": "comm-derivation",
    "appendix": "analysis_edge, other_peft_ablation, group, related_work, discussion, exp_setup",
    "def": "deletion_rate",
    "rem": "shards",
    "ex": "selection",
    "takeaway": "1, 2, 3, 4, 5",
    "alg": "random-grouping, seq-training, BAC grouping",
    "tab": "notation, seq-example, efficiency_time, ablation_time_sst2, hyperparams",
    "fig": """data_group, fedSGT, cyclic_span, theoritical_analysis, train_performance, train_results_iid,
        train_results_non_iid, unlearn_performance_iid, cifar10_iid_unlearn, cifar100_iid_unlearn,
        sst2_iid_unlearn, unlearn_performance_noniid, cifar10_noniid_unlearn, cifar100_noniid_unlearn,
        sst2_noniid_unlearn, budget_analysis, budget_unlearn, shards_r_c, shards_r_s, slice_number_iid,
        slice_number_noniid, sequence_method_unlearn, peft_ablation_results, peft_unlearning_ablation,
        bac_ablation""",
    "eq": """exactness, group_obj_mu, group_balance_mu, group_budget_mu, rate_fedsgt, rate_fedcio, span,
        hit_groups, span_given, remaining_fedcio, cost_fedavg, cost_fedcio, cost_sequence, cost_train,
        matched_budget, rounds_fedavg, rounds_fedcio, rounds_given, main-comm, time-expectation,
        hit_chance, rate_sum, time-expectation-FedCIO, hit_chance_fedcio, rate_sum_fedcio, R, gaps,
        max_gap, gap_count, span_from_gap, span_tail, span_final, span_steps, sequence_given,
        cost-K-app, K-dist-app, final-cost-app, mean_joined, least_rounds, most_rounds""",
}
ITEMS = {kind: [f"{kind}:{name}" for name in re.split(r",\s+", text)] for kind, text in NAMES.items()}
PAPER = [item for items in ITEMS.values() for item in items]


def cells(line: str) -> list[str]:
    """Return the cells of one row of a table; a stroke that stands for itself is escaped."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def entries() -> dict[str, list[str]]:
    """Return the rows that begin with each item of the paper; the short table on top is not counted."""
    found: dict[str, list[str]] = {}
    for line in TEXT.splitlines():
        row = cells(line)
        if len(row) > 2:
            for name in re.findall(r"`([^`]+:[^`]+)`", row[0]):
                found.setdefault(name, []).append(line)
    return found


@cache
def definitions(path: Path) -> frozenset[str]:
    """Return the names that a file defines at its top and within its classes; it is not imported."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names |= _names(node)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner}" for part in node.body for inner in _names(part)}
    return frozenset(names)


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_every_item_of_the_paper_has_its_place() -> None:
    assert len(set(PAPER)) == len(PAPER)
    assert "Table 1, `tab:notation`" in TEXT
    assert set(PAPER) - entries().keys() == {"tab:notation"}


def test_nothing_is_mapped_that_the_paper_has_not() -> None:
    assert set(re.findall(rf"`((?:{'|'.join(ITEMS)}):[^`]+)`", TEXT)) <= set(PAPER)


def test_every_figure_table_and_takeaway_has_its_experiment() -> None:
    found = entries()
    for name in [*ITEMS["fig"], *ITEMS["tab"][1:], *ITEMS["takeaway"]]:
        assert all("](../experiments/" in line for line in found[name]), name


def test_every_algorithm_and_equation_has_its_code_and_its_test() -> None:
    found = entries()
    for name in [*ITEMS["alg"], *ITEMS["eq"]]:
        for line in found[name]:
            assert "](../src/fedsgt/" in line, name
            assert "](../tests/" in line, name


def test_every_experiment_is_in_it() -> None:
    linked = {target for _, target in LINKS if re.fullmatch(r"\.\./experiments/\w+/README\.md", target)}
    assert linked == {f"../experiments/{name}/README.md" for name in EXPERIMENTS}
    assert all(text == target.split("/")[2] for text, target in LINKS if target in linked)


def test_every_path_exists() -> None:
    assert [target for _, target in LINKS if not (PAGE.parent / target).exists()] == []


def test_every_name_is_defined_where_it_leads() -> None:
    """A name in code is defined in that file; other words are a test's name, or the file's."""
    for text, target in LINKS:
        path = PAGE.parent / target
        if path.suffix == ".py" and text != path.name:
            name = text.strip("`") if text.startswith("`") else f"test_{text.replace(' ', '_')}"
            assert name in definitions(path), f"{target}: {name}"


def test_every_setting_is_one() -> None:
    settings = {
        f"{section}.{key}"
        for section, field in Config.model_fields.items()
        for key in getattr(field.annotation, "model_fields", {})
    }
    named = re.findall(r"`(\w+\.\w+)`", re.sub(r"\[[^\]]*\]\([^)]*\)", "", TEXT))
    assert named
    assert set(named) <= settings


def test_every_row_has_as_many_cells_as_its_head() -> None:
    width = 0
    for line in TEXT.splitlines():
        row = cells(line)
        assert not width or not row or len(row) == width, line
        width = len(row)
