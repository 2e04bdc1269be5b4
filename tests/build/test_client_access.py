"""Access to clients on this machine: what is refused, who must take part, and what is counted."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from paper_run import describe as on_paper
from paper_run import paper_run
from tiny_world import World, trained

from fedsgt.build.client_access import LOCAL, counted_in, run_info
from fedsgt.build.prepare import prepare
from fedsgt.engine.events import ignore
from fedsgt.engine.flower.traffic import ClientTraffic, Traffic
from fedsgt.engine.inprocess import InProcess
from fedsgt.errors import InputError
from fedsgt.runs.folder import open_run
from fedsgt.runs.state import DeletedData
from fedsgt.runs.traffic import read_traffic


def test_records_that_are_elsewhere_are_not_looked_for_here(images: World) -> None:
    with pytest.raises(InputError, match="the clients' records are not here; train this run with --engine"):
        LOCAL.load_clients(images.config("data.partition=remote"))


def test_erased_records_are_not_loaded(images: World) -> None:
    config = images.config()
    whole = LOCAL.load_clients(config).local
    left = LOCAL.load_clients(config, erased={1: DeletedData(slices=frozenset({0}))}).local
    assert [client.slice_sizes() for client in left] == [
        (0, client.slice_sizes()[1]) if number == 1 else client.slice_sizes()
        for number, client in enumerate(whole)
    ]


@pytest.mark.parametrize(
    ("settings", "all_of_them"),
    [
        ((), True),
        (("engine.absent=go-on",), False),
        # Over Flower an update may be refused, and the round goes on without that client.
        (("engine.name=flower",), False),
        (("engine.name=flower-sim",), False),
    ],
)
def test_who_must_take_part(settings: tuple[str, ...], all_of_them: bool, images: World) -> None:
    assert LOCAL.all_take_part(images.config(*settings)) is all_of_them


def test_traffic_is_counted_however_the_training_ends(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", on_paper([(0,)], [1]))
    for error in (None, InputError("a round failed"), KeyboardInterrupt()):
        traffic = Traffic()
        with suppress(InputError, KeyboardInterrupt), counted_in(folder, traffic):
            traffic.rounds = 1
            traffic.of_client("a").messages += 2
            if error is not None:
                raise error
    assert read_traffic(folder) == Traffic(3, {"a": ClientTraffic(messages=6)})


def test_an_engine_and_what_it_is_told_of_a_run(images: World, tmp_path: Path) -> None:
    config = images.config("grouping.groups=1")
    ((key, sha256),) = trained(tmp_path / "run", config).values()
    folder, prepared = open_run(tmp_path / "run"), prepare(config)
    with LOCAL.engine(folder, prepared, ignore) as engine:
        assert isinstance(engine, InProcess)
    info = run_info(folder, prepared)
    assert (info.hash_of(key), set(info.present())) == (sha256, {key})
    sizes = {client.name: client.slice_sizes() for client in prepared.clients}
    assert info.records("c1", (0, 1)) == sum(sizes["c1"]) == 12
    assert [info.records("c2", (index,)) for index in (0, 1)] == list(sizes["c2"])
    assert info.records("c2", ()) == 0
