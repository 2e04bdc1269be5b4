"""Clients made of a data set: nothing lost, nothing depending on file order, small clients named."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dataset_columns import ids_of, made_dataset
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.data import Client, Dataset, derive_salt, make_clients, slice_fingerprint
from fedsgt.data import partition as partition_module
from fedsgt.data.partition import partition_dirichlet, partition_iid
from fedsgt.errors import InputError


def made_up(count: int, labels: int = 3, owners: Sequence[str] | None = None) -> Dataset:
    return made_dataset(
        ids=tuple(f"r{i:05d}" for i in range(count)),
        labels=tuple(i * i % labels for i in range(count)),
        contents=tuple((f"text {i}",) for i in range(count)),
        owners=None if owners is None else tuple(owners[i % len(owners)] for i in range(count)),
        label_count=labels,
    )


def made(
    dataset: Dataset, clients: int = 4, slices: int | Sequence[int] = 2, **changes: Any
) -> tuple[Client, ...]:
    arguments: dict[str, Any] = {"partition": "iid", "alpha": 0.3, "seed": 0, **changes}
    each = [slices] * clients if isinstance(slices, int) else slices
    return make_clients(dataset, clients=clients, slices=each, **arguments)


@pytest.mark.parametrize("partition", ["iid", "dirichlet", "given"])
@given(seed=st.integers(0, 9), random=st.randoms(use_true_random=False))
def test_every_record_is_with_one_client_whatever_their_order(partition: str, seed: int, random: Any) -> None:
    dataset = made_up(80, owners=["n", "e", "s", "w"])
    clients = made(dataset, partition=partition, seed=seed)
    held = [record for client in clients for record in client.records]
    assert sorted(held, key=lambda record: record.id) == list(dataset.records)
    shuffled = replace(dataset, records=tuple(random.sample(dataset.records, 80)))
    assert made(shuffled, partition=partition, seed=seed) == clients


def test_iid_and_dirichlet_are_the_known_partitions() -> None:
    dataset = made_up(300)
    ids = ids_of(dataset.records)
    for partition, parts in (
        ("iid", partition_iid(300, 4, 5)),
        ("dirichlet", partition_dirichlet(dataset.labels, 4, 0.8, 5)),
    ):
        clients = made(dataset, partition=partition, alpha=0.8, seed=5)
        assert [client.name for client in clients] == ["client-0", "client-1", "client-2", "client-3"]
        for client, part in zip(clients, parts, strict=True):
            assert [record.id for record in client.records] == [ids[i] for i in np.sort(part)]


def test_names_sort_as_their_numbers() -> None:
    for count, last in ((10, "client-9"), (11, "client-10"), (101, "client-100")):
        names = [client.name for client in made(made_up(300), count, 1)]
        assert names == sorted(names)
        assert names[-1] == last
    assert made(made_up(300), 11, 1)[0].name == "client-00"


def test_given_clients_are_called_as_their_owners() -> None:
    clients = made(made_up(30, owners=["n", "e", "s"]), 3, [1, 2, 3], partition="given")
    assert [(client.name, client.slices, len(client.records)) for client in clients] == [
        ("e", 1, 10),
        ("n", 2, 10),
        ("s", 3, 10),
    ]


def test_seeds_and_salts_differ_by_client_and_follow_the_seed() -> None:
    clients = made(made_up(40), seed=3)
    assert [client.slicing_seed for client in clients] == [f"3/client-{i}" for i in range(4)]
    assert [client.salt for client in clients] == [derive_salt(3, f"client-{i}") for i in range(4)]
    first = clients[0]
    assert first.fingerprints()[1] == slice_fingerprint(first.salt, "client-0", 1, first.cut()[1])
    assert made(made_up(40), seed=4) != clients


def test_a_slice_may_be_empty_by_chance() -> None:
    clients = made(made_up(20), 4, 5)
    assert any(0 in client.slice_sizes() for client in clients)
    assert all(sum(client.slice_sizes()) == 5 for client in clients)


@pytest.mark.parametrize("seed", range(5))
def test_dirichlet_draws_until_every_client_has_enough(seed: int) -> None:
    """About one draw in 150 will do here: two labels, ten clients, very skewed."""
    clients = made(made_up(2000, labels=2), 10, 5, partition="dirichlet", alpha=0.1, seed=seed)
    assert min(len(client.records) for client in clients) >= 5
    assert clients == made(made_up(2000, labels=2), 10, 5, partition="dirichlet", alpha=0.1, seed=seed)


def test_dirichlet_asks_of_each_client_its_own_slices_only() -> None:
    """Every record has its place: more could not be asked of any client."""
    dataset = made_up(12, labels=2)
    clients = made(dataset, 3, [6, 1, 1], partition="dirichlet", alpha=1.0)
    sizes = [len(client.records) for client in clients]
    assert sizes[0] >= 6
    assert min(sizes) >= 1


def test_another_seed_is_another_draw_also_after_the_first() -> None:
    dataset = made_up(2000, labels=2)
    drawn = {
        tuple(len(c.records) for c in made(dataset, 10, 5, partition="dirichlet", alpha=0.1, seed=seed))
        for seed in range(5)
    }
    assert len(drawn) == 5


@pytest.mark.parametrize(
    ("dataset", "changes", "problem"),
    [
        (
            made_up(10),
            {"clients": 11, "slices": 1},
            "10 records are too few for 11 clients with 11 slices in all",
        ),
        (
            made_up(10),
            {"slices": 3},
            r"10 records .* 4 clients with 12 slices .* lower data\.clients or group",
        ),
        (
            made_up(10),
            {"clients": 2, "slices": [2, 7]},
            r"^client client-1 gets 5 records, fewer than its 7 slices; lower .*slices or data\.clients$",
        ),
        (
            made_up(60, labels=2),
            {"clients": 10, "slices": 6, "partition": "dirichlet", "alpha": 0.01},
            r"^client client-\d gets \d records?, fewer than its 6 slices; lower .* or raise data\.alpha$",
        ),
        (
            made_up(9, owners=["n", "n", "s"]),
            {"clients": 2, "slices": 4, "partition": "given"},
            r"^client s gets 3 records, fewer than its 4 slices; lower grouping\.slices for this client$",
        ),
        (
            made_up(9, owners=["n", "e", "s"]),
            {"clients": 2, "partition": "given"},
            r"^data\.clients is 2, but the records have 3 owners; leave it out$",
        ),
        (made_up(9), {"partition": "given"}, r"have no owners; set data\.client_column, or data\.partition"),
        (
            made_up(9, owners=["n\n"]),
            {"clients": 1, "partition": "given"},
            r"client name 'n\\n' is not allowed",
        ),
        (made_up(9), {"clients": 3, "slices": [1, 2]}, r"grouping\.slices has 2 values for 3 clients"),
        (made_up(9), {"clients": 2, "slices": [0, 1]}, "slices is 0; allowed"),
        (made_up(9), {"clients": 0, "slices": []}, "0 clients for 9 records"),
        (made_up(90), {"partition": "dirichlet", "alpha": 0.0}, "allowed: positive and finite"),
    ],
)
def test_what_is_wrong_is_named(dataset: Dataset, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        made(dataset, **changes)


def test_the_draw_that_came_closest_is_the_one_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter([[0, 4], [1, 3], [4, 0]])

    def drawn(*_: Any, **__: Any) -> list[Any]:
        return [np.arange(size) for size in next(draws)]

    monkeypatch.setattr(partition_module, "partition_dirichlet", drawn)
    monkeypatch.setattr(partition_module, "_MAX_DRAWS", 3)
    with pytest.raises(InputError, match="client-0 gets 1 record, fewer than its 2 slices"):
        made(made_up(4), 2, 2, partition="dirichlet")
