"""The compared systems as settings: over any file, under what is said one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsgt.config import SYSTEMS, Config, load, system_settings
from fedsgt.errors import InputError

# A file that says as much as can be said against them.
CONTRARY = """
[data]
clients = 6
partition = "given"
[grouping]
method = "centered"
groups = 12
slices = [1, 2, 3, 4, 5, 6]
limits = [1, 2, 2, 3, 3, 4]
[plan]
kind = "tree"
passes = 30.0
budget = 12
shards = 3
[training]
rounds = 2
[unlearning]
retrain = "below-modules"
threshold = 4.0
[serving]
strategy = "merged"
"""


@pytest.fixture
def contrary(tmp_path: Path) -> Path:
    path = tmp_path / "contrary.toml"
    path.write_text(CONTRARY)
    return path


def shape(run: Config) -> tuple[object, ...]:
    plan, grouping = run.plan, run.grouping
    return grouping.method, grouping.groups, plan.kind, plan.shards, plan.budget, plan.passes, grouping.limits


SHAPES = {
    "fedavg": ("random", 1, "rotations", 1, 1, None, None),
    "fedretrain": ("random", 1, "rotations", 1, 1, None, None),
    "fedcio": ("updates", 5, "rotations", 5, 1, None, None),
    "fedcio-retrain": ("updates", 5, "rotations", 5, 1, None, None),
    "sisa": ("random", 20, "rotations", 4, 1, None, None),
    "s3t": ("random", 20, "rotations", 4, 5, None, None),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_system_is_the_same_over_any_file(name: str, contrary: Path) -> None:
    settings = system_settings(name)
    for file in (None, contrary):
        run = load(file, settings)
        assert shape(run) == SHAPES[name]
        retrains = {"fedavg": "never", "fedcio": "never", "fedretrain": "now", "fedcio-retrain": "now"}
        if name in retrains:
            assert (run.unlearning.retrain, run.unlearning.threshold) == (retrains[name], None)
            assert (run.training.rounds, run.slices_per_client()) == (10, [1] * run.client_count())
        else:
            assert (run.data.clients, run.data.partition, run.slices_per_client()) == (1, "iid", [20])
        if name.startswith("fedcio"):
            assert (run.training.start, run.serving.strategy) == ("common", "all")


def test_ridge_trains_nothing_and_keeps_the_slices_of_the_file(contrary: Path) -> None:
    run = load(contrary, system_settings("ridge"))
    assert shape(run) == ("random", 12, "none", 1, None, None, None)
    assert run.slices_per_client() == [1, 2, 3, 4, 5, 6]
    assert run.unlearning.retrain == "never"
    assert (run.heads.solve, run.serving.heads, run.serving.strategy) == (True, "statistics", "all")


def test_every_system_is_named_and_described_and_fedsgt_is_the_file_itself(contrary: Path) -> None:
    assert set(SYSTEMS) == {"fedsgt", "ridge", *SHAPES}
    assert all(name == system.name and system.description for name, system in SYSTEMS.items())
    assert load(contrary, system_settings("fedsgt")) == load(contrary)


def test_what_is_said_after_a_system_wins() -> None:
    run = load(None, [*system_settings("fedcio"), "plan.shards=4", "grouping.groups=4"])
    assert (run.plan.shards, run.grouping.groups, run.plan.budget) == (4, 4, 1)


def test_an_unknown_system_is_told_which_there_are() -> None:
    with pytest.raises(
        InputError, match=r"^system: 'fedcoi' is unknown; one of fedsgt, fedavg, .*s3t, ridge$"
    ):
        system_settings("fedcoi")


def test_a_key_without_a_value_is_as_if_the_file_had_it_not(contrary: Path) -> None:
    run = load(contrary, ["plan.passes=", "grouping.limits= ", "plan.budget="])
    assert (run.plan.passes, run.grouping.limits, run.plan.budget, run.plan.kind) == (
        None,
        None,
        None,
        "tree",
    )
    for override, message in (
        ("plan.pases=", r"^plan\.pases: unknown key; did you mean passes\?"),
        ("plna.passes=", r"^plna: unknown key; did you mean plan\?"),
    ):
        with pytest.raises(InputError, match=message):
            load(contrary, [override])


def test_the_window_is_fedsgts_own() -> None:
    """Systems of one module a sequence have nothing that a window could leave out."""
    for name in ("sisa", "s3t"):
        config = load(None, ["training.window=1", *system_settings(name)])
        assert config.training.window is None, "other systems are compared as they were published"
    assert load(None, ["training.window=1", *system_settings("fedsgt")]).training.window == 1
