"""Partitions: the Dirichlet one against flwr-datasets itself, the others against their own promises."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.data.partition import partition_dirichlet, partition_iid
from fedsgt.errors import InputError

# Made by flwr-datasets 0.6.1 (numpy 2.4.6): DirichletPartitioner(num_partitions=clients, alpha=alpha,
# seed=seed, partition_by="label") over datasets.Dataset.from_dict({"label": made_up_labels(n, classes)}); its
# first draw was large enough. The hash is sha256 of json.dumps of its list of index lists.
# ((n, classes, clients, alpha, seed), hash)
Setting: TypeAlias = tuple[int, int, int, float, int]
FLWR_DATASETS_GOLDEN: list[tuple[Setting, str]] = [
    ((1000, 10, 10, 0.3, 42), "3a0222d09fb155cbe25caa94642a84c91c118f392b07c70820da3a2131650f12"),
    ((5000, 20, 100, 0.5, 7), "73ec0686c77cb452207c15c49217ee5248a729b80b5d49b1dff251de8ae4b10c"),
    ((500, 10, 4, 1000, 0), "3b52ddafeeee5a2015bacdf9777fcde021a8814a0c8865e714c831a7e6bfe9b6"),
    ((50000, 100, 50, 0.3, 1), "57aac40f8ef54426105a8befea3d70d2829ac0bc25caed84489f56eb2e602574"),
    ((40, 2, 1, 0.5, 9), "0ba3dea5b34e153629128babc8057a2eea5f29bbcfba6254478ad0b5cc594e29"),
]
# Made by version 0.1.0 of this package, which was tested against flwr-datasets with min_partition_size=0:
# very skewed, so that most clients get no record of most labels.
SKEWED_GOLDEN: list[tuple[Setting, str]] = [
    ((200, 10, 3, 1e-6, 5), "626de4a8f04457fe7d7395a00654506c950310e4c87d122ec6cee76c07b62421"),
    ((2000, 3, 8, 0.1, 11), "726bc65b304b4818e2e0e2b0fd88fd03ea5aa09bb5854a6f900487502c95ea4f"),
    ((50000, 10, 10, 0.3, 1), "ee85326a7178cc7ff616daac28a8f63289b82916d2604aee32827dad8d8d94b8"),
]


def made_up_labels(n: int, classes: int) -> list[int]:
    return [(i * i * 7 + i // 3) % classes for i in range(n)]


def lists(parts: Iterable[Any]) -> list[list[int]]:
    return [part.tolist() for part in parts]


@pytest.mark.parametrize(("setting", "expected"), [*FLWR_DATASETS_GOLDEN, *SKEWED_GOLDEN])
def test_dirichlet_is_that_of_flwr_datasets(setting: Setting, expected: str) -> None:
    n, classes, clients, alpha, seed = setting
    parts = partition_dirichlet(made_up_labels(n, classes), clients, alpha, seed)
    assert hashlib.sha256(json.dumps(lists(parts)).encode()).hexdigest() == expected


def test_dirichlet_small_cases_of_flwr_datasets_in_full() -> None:
    parts = partition_dirichlet([0, 1, 1, 0, 2, 2, 1, 0, 0, 2, 1, 2], 3, 0.9, 4)
    assert lists(parts) == [[3, 4, 1, 0, 5], [6, 9, 2], [10, 11, 7, 8]]
    parts = partition_dirichlet([5, 5, -1, 5, -1, -1], 2, 1.0, 0)
    assert lists(map(np.sort, parts)) == [[0, 1, 2], [3, 4, 5]]


@given(
    labels=st.lists(st.integers(-2, 3), min_size=8, max_size=60),
    clients=st.integers(1, 8),
    alpha=st.floats(1e-8, 1e4),
    seed=st.integers(0, 99),
)
def test_dirichlet_gives_every_record_to_one_client(
    labels: list[int], clients: int, alpha: float, seed: int
) -> None:
    parts = partition_dirichlet(labels, clients, alpha, seed)
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


@pytest.mark.parametrize("clients", [0, -1, 11, 2.0])
def test_every_client_needs_a_record(clients: Any) -> None:
    with pytest.raises(InputError, match=f"{clients} clients for 10 records"):
        partition_iid(10, clients, 0)
    with pytest.raises(InputError, match=f"{clients} clients for 10 records"):
        partition_dirichlet([0] * 10, clients, 1.0, 0)


@pytest.mark.parametrize("alpha", [0.0, -2.0, float("nan"), float("inf")])
def test_alpha_is_positive_and_finite(alpha: float) -> None:
    with pytest.raises(InputError, match=f"alpha is {alpha}; allowed: positive and finite"):
        partition_dirichlet([0, 1] * 20, 2, alpha, 0)


@pytest.mark.parametrize("labels", [[], [[1, 2]], [0.5] * 40, ["a"] * 40])
def test_labels_are_one_integer_per_record(labels: Any) -> None:
    with pytest.raises(InputError, match="allowed: one integer per record"):
        partition_dirichlet(labels, 2, 1.0, 0)


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_seeds_are_whole_numbers(seed: Any) -> None:
    with pytest.raises(InputError, match="seed is"):
        partition_iid(10, 2, seed)
