"""Arguments of a comparison: all that is wrong is told in one error, and records are read before training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fedsgt.api.comparing.arguments import Arguments, read_arguments, seed_data
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from tiny_world import World


def arguments(config: Any, **changes: Any) -> Arguments:
    usual: dict[str, Any] = {
        "systems": ["fedsgt", "sisa"],
        "stream": "slices",
        "requests": 4,
        "seeds": 2,
        "output": None,
        "data": None,
        "overrides": [],
    }
    return read_arguments(config, **usual | changes)


@pytest.mark.parametrize(("seeds", "numbers"), [(3, (0, 1, 2)), ([4, 2], (4, 2)), (range(2, 4), (2, 3))])
def test_seeds(seeds: Any, numbers: tuple[int, ...]) -> None:
    assert arguments({}, seeds=seeds).seeds == numbers


@pytest.mark.parametrize("seeds", [0, -1, [], [1, 1], [-1], "3", [1.5], None, True])
def test_wrong_seeds(seeds: Any) -> None:
    with pytest.raises(InputError, match="seeds is"):
        arguments({}, seeds=seeds)


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        arguments(
            tmp_path / "none.toml",
            systems=["no"],
            stream=3,
            requests="many",
            seeds=0,
            overrides="plan.kind=tree",
            output=7,
        )
    assert [line.partition(" ")[0] for line in error.value.mistakes] == [
        "systems:",
        "stream:",
        "requests",
        "seeds",
        "overrides:",
        "output",
    ]
    with pytest.raises(InputError, match=r"none\.toml: no such file"):
        arguments(tmp_path / "none.toml")
    with pytest.raises(InputError, match="config is of type int"):
        arguments(7)


def test_every_seed_has_its_requests_and_other_clients_their_owners(images: World) -> None:
    read = arguments(images.config())
    data = seed_data(read, 1)
    assert (data.records, data.tests, len(data.requests)) == (48, 6, 4)
    assert data.owners["fedsgt"] is None
    one_client = data.owners["sisa"]
    assert one_client is not None
    assert set(one_client) == {row.id for row in images.rows}
    assert len(set(one_client.values())) == 1


def test_a_given_stream_names_the_seed_that_lacks_its_records(images: World) -> None:
    read = arguments(images.config(), stream=[("c0", ["r001"])])
    with pytest.raises(InputError, match="seed 1: stream: request 1: client c0 has no record 'r001'"):
        seed_data(read, 1)


def test_records_in_memory_are_read_once(images: World) -> None:
    rows = [{"id": r.id, "image": r.content, "label": r.label, "client": r.client} for r in images.rows]
    read = arguments(images.config(), data={"train": rows, "test": rows[:5]})
    assert read.data is not None
    assert sorted(read.data) == ["test", "train"]
    data = seed_data(read, 0)
    assert (data.records, data.tests) == (48, 5)
