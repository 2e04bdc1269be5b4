"""Settings that fit together, and those that do not."""

from __future__ import annotations

import pytest

from fedsgt.config import load
from fedsgt.errors import InputError


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("plan.passes=2", ["plan.passes", "2", "5.5"]),
        ("grouping.groups=51", ["grouping.groups", "51", "at most 50"]),
        ("grouping.slices=[5,5]", ["grouping.slices", "2 values", "10 clients"]),
        ("grouping.limits=[5]", ["grouping.limits", "1 values", "10 clients"]),
        ("unlearning.retrain=below-modules", ["unlearning.threshold", "below-modules"]),
        ("unlearning.threshold=3", ["unlearning.threshold", "3", "never"]),
    ],
)
def test_a_contradiction_names_the_key_the_value_and_what_is_allowed(override: str, parts: list[str]) -> None:
    with pytest.raises(InputError, match=r"^[^\n]+$") as error:
        load(None, [override])
    for part in parts:
        assert part in str(error.value)


def test_an_accuracy_is_a_share() -> None:
    with pytest.raises(InputError, match=r"unlearning\.threshold: 90 is no accuracy; give a share, 0 to 1"):
        load(None, ["unlearning.retrain=below-accuracy", "unlearning.threshold=90"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["plan.shards=11"], r"^plan\.shards: 11 for 10 groups; at most one for each group$"),
        (["plan.shards=2", "plan.passes=2"], r"^plan\.passes: 2 is too little; 5 groups take at least 3$"),
        (
            ["grouping.method=updates", "data.clients=9"],
            r"^grouping\.groups: 10 clusters of 9 clients; with updates at most 9$",
        ),
    ],
)
def test_settings_that_do_not_fit_together(overrides: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(None, overrides)
    assert load(None, ["plan.shards=2", "plan.passes=3"]).plan.passes == 3


def test_each_client_has_its_number_of_slices() -> None:
    assert load(None, ["data.clients=3", "grouping.slices=4"]).slices_per_client() == [4, 4, 4]
    uneven = ["data.clients=3", "grouping.slices=[4,1,2]", "grouping.groups=7"]
    assert load(None, uneven).slices_per_client() == [4, 1, 2]
    with pytest.raises(InputError, match=r"^grouping\.groups: 8 is more than the 7 slices; at most 7$"):
        load(None, [*uneven, "grouping.groups=8"])


@pytest.mark.parametrize(("groups", "shards", "least"), [(1, 1, 1), (9, 1, 5), (9, 2, 3), (9, 9, 1)])
def test_a_plan_may_take_as_few_passes_as_one_sequence_in_each_shard(
    groups: int, shards: int, least: float
) -> None:
    """A sequence of n groups trains on 1, 2, ..., n of them: (n + 1) / 2 passes over its data."""
    settings = [f"grouping.groups={groups}", f"plan.shards={shards}"]
    assert load(None, [*settings, f"plan.passes={float(least)}"]).plan.passes == least
    with pytest.raises(InputError, match=r"^plan\.passes: .* is too little"):
        load(None, [*settings, f"plan.passes={least - 0.01}"])
