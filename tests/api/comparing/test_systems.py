"""Compared systems: names, labels with settings, and what is told of wrong ones."""

from __future__ import annotations

from typing import Any

import pytest

from fedsgt.api.comparing.systems import ComparedSystem, check_configs, config_for, read_systems
from fedsgt.config import SYSTEMS


def labels(systems: Any) -> list[str]:
    found, mistakes = read_systems(systems)
    assert mistakes == []
    return [system.label for system in found]


def test_systems_are_names_pairs_or_a_mapping() -> None:
    assert labels(["fedsgt", "fedavg"]) == ["fedsgt", "fedavg"]
    assert labels("fedcio") == ["fedcio"]
    assert labels(["fedsgt", ("tree", ["plan.kind=tree"])]) == ["fedsgt", "tree"]
    assert labels({"tree": ["plan.kind=tree"], "fedavg": []}) == ["tree", "fedavg"]


def test_a_known_name_brings_its_settings_and_others_come_on_top() -> None:
    (found,), _ = read_systems([("fedcio", ["grouping.groups=4"])])
    assert found.overrides == (*SYSTEMS["fedcio"].overrides, "grouping.groups=4")
    (found,), _ = read_systems({"four": ["fedcio", "grouping.groups=4"]})
    assert found.overrides == (*SYSTEMS["fedcio"].overrides, "grouping.groups=4")


@pytest.mark.parametrize(
    ("systems", "words"),
    [
        ([], "none is named"),
        (["fedsgd"], "'fedsgd' is no system"),
        (7, "7 is no system"),
        ([("a/b", [])], "label 'a/b' is not allowed"),
        ([("../up", [])], "label '../up' is not allowed"),
        ([("x", "plan.kind=tree")], "no list of settings"),
        ([("x", [3])], "no list of settings"),
        (["fedavg", ("FedAvg", [])], "'fedavg' stands there twice"),
        ([("x", ["training.seed=3"])], "training.seed=3 is not allowed"),
    ],
)
def test_wrong_systems_are_told(systems: Any, words: str) -> None:
    _, mistakes = read_systems(systems)
    assert len(mistakes) == 1
    assert words in mistakes[0]


def test_a_run_has_the_seed_everywhere_and_touches_nothing_of_others() -> None:
    common = {
        "store": {"url": "s3://mine"},
        "unlearning": {"ledger": "postgresql://db", "key": "my.key"},
        "data": {"erase": "rewrite", "seed": 9},
        "training": {"seed": 9},
    }
    made = config_for(common, [], ComparedSystem("x", ("data.erase=rewrite",)), 4)
    assert (made.data.seed, made.grouping.seed, made.training.seed) == (4, 4, 4)
    assert made.store.url is None
    assert (made.unlearning.ledger, made.unlearning.key) == (None, None)
    assert made.data.erase == "tombstone"


def test_overrides_are_for_the_common_configuration_and_systems_come_on_top() -> None:
    (fedavg,), _ = read_systems(["fedavg"])
    assert config_for({}, ["grouping.groups=4"], None, 0).grouping.groups == 4
    assert config_for({}, ["grouping.groups=4"], fedavg, 0).grouping.groups == 1


def test_mistakes_of_all_systems_are_told_and_common_ones_once() -> None:
    systems, _ = read_systems(["fedsgt", ("a", ["plan.kind=no"]), ("b", ["grouping.groups=0"])])
    found = check_configs({}, [], systems, 0)
    assert [line.partition(":")[0] for line in found] == ["a", "b"]
    assert len(check_configs({}, ["plan.kind=no"], systems, 0)) == 1


def test_systems_have_the_same_records() -> None:
    systems, _ = read_systems(["sisa", ("less", ["data.limit=100"])])
    found = check_configs({}, [], systems, 0)
    assert found == [
        "less: data.limit is 100, and None for the others; systems are compared on the same records"
    ]
    assert "remote" in check_configs({"data": {"partition": "remote"}}, [], [], 0)[0]
