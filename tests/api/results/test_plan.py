"""The plan of a run as an object: its sequences, what is live of them, and the drawing."""

from __future__ import annotations

from pathlib import Path

from tiny_deletions import trained_run
from tiny_world import World

import fedsgt


def test_a_plan_shows_what_is_live(images: World, tmp_path: Path) -> None:
    run = fedsgt.open_run(trained_run(images, tmp_path / "run"))
    assert repr(run.plan) == "<Plan rotations: 3 sequences of 3 groups, 9 modules, 6 passes>"
    group = run.unlearn("c0", slices=[0]).groups[0]
    plan = run.plan
    assert all(group not in prefix for prefix in plan.live)
    assert [entry["live"] for entry in plan.to_json()["sequences"]] == list(map(len, plan.live))
    assert plan._repr_html_().startswith("<svg")
    assert plan.plan.deletion_rate() > 3, "the plan itself can be scored"
