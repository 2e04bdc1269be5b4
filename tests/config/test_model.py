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
        ("grouping.limits=[5]", ["grouping.limits", "1 value", "10 clients"]),
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
        (["plan.shards=2", "plan.passes=2"], r"^plan\.passes: 2 is too little; 5 groups need at least 3$"),
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


def test_all_contradictions_are_told() -> None:
    settings = ["grouping.slices=[5,5]", "grouping.limits=[5]", "plan.shards=11", "unlearning.threshold=3"]
    with pytest.raises(InputError) as error:
        load(None, settings)
    assert list(error.value.mistakes) == [
        "grouping.slices: 2 values for 10 clients; give one for each",
        "grouping.limits: 1 value for 10 clients; give one for each",
        "plan.shards: 11 for 10 groups; at most one for each group",
        "unlearning.threshold: 3, but unlearning.retrain is never; set that to below-modules or "
        "below-accuracy, or leave the threshold out",
    ]


def test_each_client_has_its_number_of_slices() -> None:
    assert load(None, ["data.clients=3", "grouping.slices=4"]).slices_per_client() == [4, 4, 4]
    uneven = ["data.clients=3", "grouping.slices=[4,1,2]", "grouping.groups=7"]
    assert load(None, uneven).slices_per_client() == [4, 1, 2]
    with pytest.raises(InputError, match=r"^grouping\.groups: 8 is more than the 7 slices; at most 7$"):
        load(None, [*uneven, "grouping.groups=8"])


def test_the_number_of_clients_may_be_left_to_the_data() -> None:
    assert load(None, []).client_count() == 10
    given = [
        "data.partition=given",
        "grouping.slices=[1, 2, 3]",
        "grouping.limits=[1, 1]",
        "grouping.groups=2",
    ]
    run = load(None, given)
    with pytest.raises(
        InputError, match=r"^data\.clients: not given, and with data\.partition given only the data"
    ):
        run.client_count()
    # The lists are compared with the number as soon as that is known.
    with pytest.raises(InputError, match=r"^grouping\.limits: 2 values for 3 clients; give one for each$"):
        run.with_clients(3)
    assert load(None, [*given, "grouping.limits="]).with_clients(3).slices_per_client() == [1, 2, 3]
    assert load(None, [*given, "data.clients=3", "grouping.limits="]).client_count() == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["data.label_names=['a', 'b', 'a']"],
            r"^data\.label_names: 'a' is there twice; give each label a name",
        ),
        (
            ["data.label_names=['a', 'b']", "data.labels=3"],
            r"^data\.labels: 3, but data\.label_names has 2; leave",
        ),
        (["data.label_names=['a']"], r"^data\.label_names: "),
        (["data.label_names=['a', '']"], r"^data\.label_names"),
        (["data.test_share=1.0"], r"^data\.test_share: 1\.0"),
        (["data.test_share=-0.1"], r"^data\.test_share: -0\.1"),
        (["data.clients=0"], r"^data\.clients: 0"),
    ],
)
def test_labels_and_shares_that_cannot_be(settings: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(None, settings)
    assert load(None, ["data.label_names=['a', 'b']", "data.labels=2"]).data.label_count == 2
    assert (load(None, ["data.labels=2"]).data.label_count, load(None, []).data.label_count) == (2, None)


@pytest.mark.parametrize(("groups", "shards", "least"), [(1, 1, 1), (9, 1, 5), (9, 2, 3), (9, 9, 1)])
def test_a_plan_may_take_as_few_passes_as_one_sequence_in_each_shard(
    groups: int, shards: int, least: float
) -> None:
    """A sequence of n groups trains on 1, 2, ..., n of them: (n + 1) / 2 passes over its data."""
    settings = [f"grouping.groups={groups}", f"plan.shards={shards}"]
    assert load(None, [*settings, f"plan.passes={float(least)}"]).plan.passes == least
    with pytest.raises(InputError, match=r"^plan\.passes: .* is too little"):
        load(None, [*settings, f"plan.passes={least - 0.01}"])


@pytest.mark.parametrize(("window", "least"), [("1", 1), ("2", 17 / 9), ("9", 5), ("99", 5), ("own", 1)])
def test_with_a_window_fewer_passes_are_enough(window: str, least: float) -> None:
    settings = ["grouping.groups=9", f"training.window={window}"]
    assert load(None, [*settings, f"plan.passes={float(least)}"]).plan.passes == least
    with pytest.raises(InputError, match=r"^plan\.passes: .* is too little"):
        load(None, [*settings, f"plan.passes={least - 0.01}"])
