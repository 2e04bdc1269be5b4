"""Partitions: the Dirichlet one against flwr-datasets itself, the others against their own promises."""

import hashlib
import json
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.data import partition_dirichlet, partition_given, partition_iid
from fedsgt.errors import InputError

SKEWED = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0]

# Made by flwr-datasets 0.6.1 (numpy 2.4.6): DirichletPartitioner(num_partitions=clients, alpha=alpha,
# seed=seed, partition_by="label", min_partition_size=min_size, ...) over datasets.Dataset.from_dict({"label":
# made_up_labels(n, classes)}); the hash is sha256 of json.dumps of its list of index lists.
# ((n, classes, clients, alpha, seed, other arguments), hash)
Setting: TypeAlias = tuple[int, int, int, Any, int, dict[str, Any]]
FLWR_DATASETS_GOLDEN: list[tuple[Setting, str]] = [
    (
        (1000, 10, 10, 0.3, 42, {}),
        "3a0222d09fb155cbe25caa94642a84c91c118f392b07c70820da3a2131650f12",
    ),
    (
        (1000, 10, 10, 0.3, 42, {"self_balancing": True}),
        "093d69a7e399e8bbc446da9a18bff630d1eabcb47dcae5c1a46890d16b55d131",
    ),
    (
        (1000, 10, 10, 0.3, 42, {"shuffle": False}),
        "fca9dbb37010caeaa4b535ed68ea0864dde2c63a81dc0c3fbbc0d1852f776316",
    ),
    (
        (5000, 20, 100, 0.5, 7, {"min_size": 5}),
        "73ec0686c77cb452207c15c49217ee5248a729b80b5d49b1dff251de8ae4b10c",
    ),
    (
        (5000, 20, 100, 0.1, 7, {"min_size": 1, "self_balancing": True}),
        "006dbd9e3e471d3c1c68c5f21e633dd4796ff74803d479b2e6988844c8dc4189",
    ),
    # The last draw allowed is the one that is large enough.
    (
        (300, 4, 5, 0.1, 3, {"min_size": 20}),
        "77c3f8aaf632a219ce9e1d2ab6aaec2b7706caf914ac77f5e92a89a211351160",
    ),
    (
        (2000, 3, 8, SKEWED, 11, {"min_size": 0}),
        "5c4deec978d934af655e29b2c076188e31548cffc65e8b019d50e94e012ad122",
    ),
    (
        (2000, 3, 8, SKEWED, 11, {"min_size": 0, "self_balancing": True}),
        "cd41c36f203a59ce6e95f7b8d881664decc6a717861caba26e05d87f6a4986e8",
    ),
    (
        (500, 10, 4, 1000, 0, {}),
        "3b52ddafeeee5a2015bacdf9777fcde021a8814a0c8865e714c831a7e6bfe9b6",
    ),
    # Full clients have all of the mass of a label, twice.
    (
        (200, 10, 3, 1e-6, 5, {"min_size": 0, "self_balancing": True}),
        "46b96d675a1e47ae5c176f71db59a9c94e040e8cf75a960ace69d43461934ac4",
    ),
    (
        (50000, 10, 10, 0.3, 1, {"self_balancing": True}),
        "fa603866c7e1b06ea17db3c6e0359cedbbc1f93f28ed828c900dc1e4680adad5",
    ),
    (
        (50000, 100, 50, 0.3, 1, {}),
        "57aac40f8ef54426105a8befea3d70d2829ac0bc25caed84489f56eb2e602574",
    ),
    (
        (40, 2, 1, 0.5, 9, {}),
        "0ba3dea5b34e153629128babc8057a2eea5f29bbcfba6254478ad0b5cc594e29",
    ),
]


def made_up_labels(n: int, classes: int) -> list[int]:
    return [(i * i * 7 + i // 3) % classes for i in range(n)]


def lists(parts: list[Any]) -> list[list[int]]:
    return [part.tolist() for part in parts]


@pytest.mark.parametrize(("setting", "expected"), FLWR_DATASETS_GOLDEN)
def test_dirichlet_is_that_of_flwr_datasets(setting: Setting, expected: str) -> None:
    n, classes, clients, alpha, seed, others = setting
    parts = partition_dirichlet(made_up_labels(n, classes), clients, alpha, seed, **others)
    assert hashlib.sha256(json.dumps(lists(parts)).encode()).hexdigest() == expected


def test_dirichlet_small_cases_of_flwr_datasets_in_full() -> None:
    labels = np.array([0, 1, 1, 0, 2, 2, 1, 0, 0, 2, 1, 2])
    parts = partition_dirichlet(labels, 3, 0.9, 4, min_size=2)
    assert lists(parts) == [[3, 4, 1, 0, 5], [6, 9, 2], [10, 11, 7, 8]]
    parts = partition_dirichlet([5, 5, -1, 5, -1, -1], 2, 1.0, 0, min_size=1, shuffle=False)
    assert lists(parts) == [[2, 0, 1], [4, 5, 3]]


def test_dirichlet_gives_up_where_flwr_datasets_does() -> None:
    # The twelfth draw would do; flwr-datasets stops after the eleventh.
    problem = r"in 11 .* smallest client got at most 5 records.* size 20; raise alpha, lower the minimum size"
    with pytest.raises(InputError, match=problem):
        partition_dirichlet(made_up_labels(300, 4), 5, 0.1, 30, min_size=20)


@given(
    labels=st.lists(st.integers(-2, 3), min_size=8, max_size=60),
    clients=st.integers(1, 8),
    alpha=st.floats(1e-8, 1e4),
    seed=st.integers(0, 99),
    self_balancing=st.booleans(),
)
def test_dirichlet_gives_every_record_to_one_client(
    labels: list[int], clients: int, alpha: float, seed: int, self_balancing: bool
) -> None:
    parts = partition_dirichlet(labels, clients, alpha, seed, min_size=0, self_balancing=self_balancing)
    assert len(parts) == clients
    assert all(part.dtype == np.int64 for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))


@given(clients=st.integers(1, 30), extra=st.integers(0, 200), seed=st.integers(0, 99))
def test_iid_is_an_even_seeded_partition(clients: int, extra: int, seed: int) -> None:
    count = clients + extra
    parts = partition_iid(count, clients, seed)
    sizes = [len(part) for part in parts]
    assert len(parts) == clients
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert sorted(np.concatenate(parts).tolist()) == list(range(count))
    assert lists(parts) == lists(partition_iid(count, clients, seed))


def test_iid_mixes_and_depends_on_the_seed() -> None:
    parts = partition_iid(1000, 4, 0)
    assert all(part.dtype == np.int64 for part in parts)
    assert lists(parts) != lists(partition_iid(1000, 4, 1))
    # A quarter of each client's records should come from each quarter of the data: 62.5, sd below 7.
    quarters = np.array([np.bincount(part // 250, minlength=4) for part in parts])
    assert abs(quarters - 62.5).max() < 28


def test_given_owners_are_sorted_with_their_indices() -> None:
    parts = partition_given(["b", "a", "b", "ab"])
    assert [(owner, part.tolist()) for owner, part in parts] == [("a", [1]), ("ab", [3]), ("b", [0, 2])]
    numbers: list[tuple[int, Any]] = partition_given(np.array([10, 2, 10]))
    assert [(owner, part.tolist()) for owner, part in numbers] == [(2, [1]), (10, [0, 2])]
    assert all(part.dtype == np.int64 for _, part in parts)


@pytest.mark.parametrize("owners", [[], ["a", 1], [None], [1.0], [True]])
def test_owners_of_other_kinds_are_an_error(owners: Any) -> None:
    with pytest.raises(InputError, match="all int or all str"):
        partition_given(owners)


@pytest.mark.parametrize("clients", [0, -1, 11, 2.0])
def test_every_client_needs_a_record(clients: Any) -> None:
    with pytest.raises(InputError, match=f"{clients} clients for 10 records"):
        partition_iid(10, clients, 0)
    with pytest.raises(InputError, match=f"{clients} clients for 10 records"):
        partition_dirichlet([0] * 10, clients, 1.0, 0)


@pytest.mark.parametrize(
    ("alpha", "problem"),
    [
        (0.0, "0.0 as its least"),
        ([1.0, -2.0], "-2.0 as its least"),
        (float("nan"), "nan as its least"),
        (float("inf"), "inf as its least"),
        ([1.0], r"shape \(1,\); allowed: a number, or 2"),
        ("much", "alpha is 'much'"),
    ],
)
def test_alpha_is_positive_and_fits_the_clients(alpha: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        partition_dirichlet([0, 1] * 20, 2, alpha, 0)


@pytest.mark.parametrize("labels", [[], [[1, 2]], [0.5] * 40, ["a"] * 40])
def test_labels_are_one_integer_per_record(labels: Any) -> None:
    with pytest.raises(InputError, match="allowed: one integer per record"):
        partition_dirichlet(labels, 2, 1.0, 0)


@pytest.mark.parametrize("min_size", [-1, 21])
def test_a_minimum_size_that_cannot_be_is_an_error(min_size: int) -> None:
    with pytest.raises(
        InputError, match=f"minimum size {min_size} for 2 clients and 40 records; allowed: 0 to 20"
    ):
        partition_dirichlet([0, 1] * 20, 2, 1.0, 0, min_size=min_size)


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_seeds_are_whole_numbers(seed: Any) -> None:
    with pytest.raises(InputError, match="seed is"):
        partition_iid(10, 2, seed)
