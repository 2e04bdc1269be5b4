"""Statistics of clients on their own machines: the in-process bytes of all records, if their owner agrees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from client_machines import (
    NAMES,
    Intercept,
    Machines,
    access_to,
    close_machines,
    make_machines,
    remote_config,
)
from flwr.app import Message
from tiny_world import LABELS, SLICES, Quiet, World, image_rows

from fedsgt.build.build import Build
from fedsgt.build.prepare import Prepared, describe, prepare_clients
from fedsgt.config import Config
from fedsgt.data import Client
from fedsgt.engine.flower.messages import tensor_record, text_of
from fedsgt.engine.flower.statistic_messages import (
    ChainQuestion,
    StatisticAnswer,
    StatisticOrder,
    decode_order,
    encode_order,
)
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.task import StatisticTask
from fedsgt.engine.worker import Setup
from fedsgt.errors import ShareableError
from fedsgt.federation.client.node_app import CHANGED, LEAVING, PARTIAL, UNTOLD
from fedsgt.federation.client.pins import BACK, FEW, LEAST_RECORDS, NO_RUN, PINS, SMALL, UNKNOWN
from fedsgt.federation.client.records import ClientRecords
from fedsgt.federation.client.trainer import ClientTrainer
from fedsgt.federation.client.withdraw import withdraw
from fedsgt.federation.server.remote import RemoteClients
from fedsgt.federation.settings import load_client
from fedsgt.runs.folder import RunFolder, create_run
from fedsgt.runs.state import DeletedData
from fedsgt.stack.statistics import Statistic
from fedsgt.unlearning.request import Deletion

Found = dict[StatisticTask, tuple[bytes, bytes, int, int]]
ALL = tuple(range(SLICES))
EACH = 60
"""Records of each client of `large`."""


@pytest.fixture(scope="session")
def large(images: World) -> World:
    """Return a world with enough records for statistics of samples."""
    return replace(images, rows=image_rows(EACH))


@pytest.fixture
def large_machines(large: World, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "large"
    make_machines(folder, large)
    yield folder
    close_machines(folder)


def bytes_of(found: Statistic) -> tuple[bytes, bytes, int, int]:
    return found.gram.tobytes(), found.cross.tobytes(), found.records, found.bits


class RemoteRun:
    """A trained run whose clients are machines, and the statistics that they send of it."""

    def __init__(
        self,
        folder: Path,
        path: Path,
        run: Config,
        intercept: Intercept = lambda client, message, answer: answer(),
    ) -> None:
        self.folder, self.run = folder, run
        self.grid, self.display = Machines(folder, intercept), Quiet()
        self.access: RemoteClients = access_to(folder, self.grid)
        prepared = prepare_clients(run, self.access.load_clients(run))
        self.run_folder: RunFolder = create_run(path, prepared.run, describe(prepared))
        with self.access.engine(self.run_folder, prepared, self.display) as engine:
            training = prepared.run.training
            job = Build(prepared.recipe, self.run_folder.modules, engine, 1, training.seed, self.display)
            job.run(prepared.targets)
        self.prepared: Prepared = prepared
        self.chains = [(), *((*target.parents, target.key) for target in prepared.targets)]

    def tasks(self, *names: str, slices: tuple[int, ...] = ALL) -> list[StatisticTask]:
        return [StatisticTask(chain, name, slices) for name in names or NAMES for chain in self.chains]

    def gathered(self, tasks: list[StatisticTask] | None = None, prepared: Prepared | None = None) -> Found:
        with self.access.engine(self.run_folder, prepared or self.prepared, self.display) as engine:
            found = engine.statistics(self.tasks() if tasks is None else tasks)
            return {task: bytes_of(statistic) for task, statistic in found}

    def client(self, name: str) -> Client:
        return ClientRecords(load_client(self.folder / name)).client(name, SLICES, LABELS)

    def expected(self, changed: Mapping[str, Client] | None = None) -> Found:
        """Return the statistics that the in-process engine makes of all clients' records."""
        clients = {name: self.client(name) for name in NAMES} | dict(changed or {})
        modules = self.run_folder.modules
        setup = Setup.for_clients(self.run, LABELS, clients.values(), None, modules.get, None)
        local = replace(setup, run=setup.run.model_copy(update={"engine": self.run.engine}))
        with InProcess(local, self.prepared.model.stack) as engine:
            return {task: bytes_of(found) for task, found in engine.statistics(self.tasks())}


def small(world: World, *overrides: str) -> Config:
    return remote_config(world, "grouping.groups=2", "plan.budget=1", *overrides)


def without(found: Found, name: str) -> Found:
    return {task: one for task, one in found.items() if task.client != name}


@pytest.mark.parametrize("settings", [(), ("heads.share=0.5", "heads.bits=12", "peft.layers=1")])
def test_statistics_of_machines_are_those_of_the_in_process_engine(
    large: World, large_machines: Path, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    there = RemoteRun(large_machines, tmp_path / "run", small(large, *settings))
    expected = there.expected()
    assert there.gathered() == expected
    assert there.gathered() == expected, "with the activations that are kept"
    assert not there.display.troubles
    assert {bits for *_, bits in expected.values()} == {12 if settings else 16}
    assert (min(records for *_, records, _ in expected.values()) < EACH) is bool(settings)


def test_only_settings_that_shape_a_statistic_are_sent(images: World, machines: Path, tmp_path: Path) -> None:
    asked: list[Message] = []

    def intercept(client: str, message: Message, answer: Callable[[], Message]) -> Message:
        asked.extend([message] if message.metadata.message_type == "query.statistics" else [])
        return answer()

    there = RemoteRun(machines, tmp_path / "run", small(images, "heads.ridge=3.0"), intercept)
    there.gathered()
    assert len(asked) == len(NAMES)
    assert decode_order(asked[0].content).about["settings"]["heads"] == {"share": 1.0, "bits": 16}


def test_a_client_decides_for_itself(images: World, machines: Path, tmp_path: Path) -> None:
    settings = machines / "c1" / "client.toml"
    text = settings.read_text(encoding="utf-8")
    assert "\nheads = true\n" in text
    settings.write_text(text.replace("\nheads = true\n", "\nheads = false\n"), encoding="utf-8")
    there = RemoteRun(machines, tmp_path / "run", small(images))
    assert there.gathered() == without(there.expected(), "c1")
    ((client, what),) = there.display.troubles
    assert (client, what.split(":")[0]) == ("c1", "takes no part in statistics")


def test_statistics_have_no_noise_so_a_private_run_gets_none(
    images: World, machines: Path, tmp_path: Path
) -> None:
    there = RemoteRun(machines, tmp_path / "run", small(images, "privacy.epsilon=50"))
    assert there.gathered() == {}
    assert [client for client, _ in there.display.troubles] == list(NAMES)
    assert all("statistics have no noise" in what for _, what in there.display.troubles)


def test_a_statistic_of_a_part_of_the_records_is_refused(
    images: World, machines: Path, tmp_path: Path
) -> None:
    """A server could otherwise take two sums apart, or ask for so few records that they show."""
    there = RemoteRun(machines, tmp_path / "run", small(images))
    for slices in ((0,), (0, 1, 1)):
        assert there.gathered(there.tasks("c2", slices=slices)) == {}
    assert {what.partition(": ")[2] for _, what in there.display.troubles} == {PARTIAL}


def test_records_of_an_unanswered_withdrawal_are_in_no_statistic(
    images: World, machines: Path, tmp_path: Path
) -> None:
    there = RemoteRun(machines, tmp_path / "run", small(images))
    expected = there.expected()
    settings = load_client(machines / "c1")
    record = there.client("c1").cut()[0][0].id
    (outcome,) = withdraw(settings, Deletion("c1", records=(record,)))
    assert outcome.state == "kept", "the desk cannot be reached"
    assert there.gathered() == without(expected, "c1")
    assert there.display.troubles == [("c1", f"3 statistics left out: {LEAVING}")]


def test_records_that_changed_are_in_no_statistic(images: World, machines: Path, tmp_path: Path) -> None:
    there = RemoteRun(machines, tmp_path / "run", small(images))
    expected = there.expected()
    file = machines / "c3" / "records.parquet"
    table = pq.read_table(file)
    labels = pa.array([(label + 1) % LABELS for label in table.column("label").to_pylist()])
    pq.write_table(table.set_column(table.column_names.index("label"), "label", labels), file)
    assert there.gathered() == without(expected, "c3")
    assert there.display.troubles == [("c3", f"3 statistics left out: {CHANGED}")]


def test_deleted_records_are_left_out(images: World, machines: Path, tmp_path: Path) -> None:
    there = RemoteRun(machines, tmp_path / "run", small(images))
    client = there.client("c0")
    gone = client.cut()[0][0].id
    before, own = there.expected(), ClientRecords(load_client(machines / "c0"))
    own.withdraw([own.hash_of(gone)], (), there.run_folder.description.id)
    erased = {0: DeletedData(records=frozenset({client.hash_of(gone)}))}
    data = there.access.load_clients(there.run, there.run_folder.description, erased)
    after = prepare_clients(there.run, data, there.run_folder.description)
    found = there.gathered(prepared=after)
    assert found == there.expected({"c0": client.without([gone])})
    assert found != before


def test_errors_are_told_without_details(
    images: World, machines: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A module that is damaged on the way; the client's own log says which."""
    there = RemoteRun(machines, tmp_path / "run", small(images))
    with there.access.engine(there.run_folder, there.prepared, there.display) as engine:
        info = engine.transport.info
        engine.transport.packer.info = replace(info, hash_of=lambda key: "0" * 64)
        assert not list(engine.statistics(there.tasks("c0")))
    assert there.display.troubles == [("c0", f"3 statistics left out: {UNTOLD}")]
    assert "did not arrive as it was sent" in capfd.readouterr().err
    assert all("arrive" not in str(text_of(content)) for _, content in there.grid.heard)


class HostileServer:
    """Asks client c0 for statistics as no honest server does."""

    def __init__(self, there: RemoteRun) -> None:
        self.trainer = ClientTrainer(load_client(there.folder / "c0"))
        self.own = self.trainer.own
        with there.access.engine(there.run_folder, there.prepared, there.display) as engine:
            self.about: dict[str, Any] = dict(engine.transport.info.about("c0"))

    def ask(
        self,
        share: float = 1.0,
        bits: int = 16,
        slices: Iterable[int] = (),
        records: Iterable[str] = (),
        run: str | None = None,
        questions: Sequence[Sequence[Any]] = (),
    ) -> StatisticAnswer:
        """Return the answer to an order with this share and these bits, after deletions that are claimed.

        Each question names slices; there is one, of all slices, unless others are given.
        """
        sent = {**self.about["settings"], "heads": {"share": share, "bits": bits}}
        claimed = {"slices": list(slices), "records": list(records)}
        about = self.about | {"settings": sent, "erased": claimed, "expect": {}}
        about |= {} if run is None else {"run": run}
        # A server hears the new fingerprints by letting the client register once more.
        found = self.trainer.register(about)["fingerprints"]
        about["expect"] = {str(index): fingerprint for index, fingerprint in enumerate(found)}
        asked = tuple(ChainQuestion((), tuple(named)) for named in questions or [range(len(found))])
        order = StatisticOrder("c0", asked, about=about)
        return self.trainer.statistics(decode_order(encode_order(order, tensor_record)))

    def records(self, **asked: Any) -> int:
        """Return the number of records that the statistic is made of."""
        answer = self.ask(**asked)
        assert not answer.declined
        assert not answer.problems
        return answer.statistics[0].records

    def end(self) -> None:
        self.trainer.rest()
        self.trainer.idle.cancel()


@pytest.fixture
def hostile(large: World, large_machines: Path, tmp_path: Path) -> Iterator[HostileServer]:
    """Return the server of a run whose clients have slices of a few records each."""
    made = HostileServer(RemoteRun(large_machines, tmp_path / "run", small(large, "grouping.slices=8")))
    yield made
    made.end()


def test_a_statistic_of_few_records_is_refused(hostile: HostileServer) -> None:
    answer = hostile.ask(share=0.02)
    assert (answer.declined, answer.statistics) == (FEW, {})
    assert hostile.records() == EACH, "what was refused pins nothing"


def test_the_settings_of_the_first_statistics_are_pinned(hostile: HostileServer) -> None:
    """A server that steps the share finds single records in the differences."""
    first = hostile.records(share=0.5)
    assert LEAST_RECORDS <= first < EACH
    for share, bits in ((0.52, 16), (1.0, 16), (0.5, 12)):
        with pytest.raises(ShareableError, match=rf"had heads\.share = 0\.5 .* none with {share} and {bits}"):
            hostile.ask(share, bits)
    assert hostile.records(share=0.5) == first


def test_slices_cannot_be_taken_out_one_by_one(hostile: HostileServer) -> None:
    whole = hostile.trainer.own.client("c0", 8, LABELS)
    sizes = whole.slice_sizes()
    index = next(index for index, size in enumerate(sizes) if 0 < size < LEAST_RECORDS)
    with pytest.raises(ShareableError, match=re.escape(SMALL)):
        hostile.ask(slices=[index])
    assert hostile.records() == EACH
    others = [other for other in range(8) if other != index]
    assert hostile.ask(slices=others).declined == FEW, "the statistic of a single slice"
    gone = others[:3]
    assert hostile.records(slices=gone) == EACH - sum(sizes[other] for other in gone), "as an operator may"
    with pytest.raises(ShareableError, match=re.escape(BACK)):
        hostile.ask(slices=gone[1:])
    with pytest.raises(ShareableError, match=re.escape(SMALL)):
        hostile.ask(slices=[*gone, index])


def test_no_slice_is_counted_twice_under_another_number(hostile: HostileServer) -> None:
    """The difference from the honest answer would be the statistic of that slice alone."""
    every = tuple(range(8))
    twice = [(*every, -1), (*every, -3), (-8, *every), (*every, 7), (*every, 7.0), (*every, True)]
    moved = [every[::-1], (-1, *range(7)), (*every, 8), (*range(7), -1), (*range(7), "7"), every[1:], ()]
    typed = [(0, True, *range(2, 8)), (0.0, *range(1, 8)), (*range(7), None), (*range(7), [7])]
    answer = hostile.ask(questions=[*twice, *moved, *typed, every])
    last = len(twice + moved + typed)
    assert answer.problems == dict.fromkeys(range(last), PARTIAL)
    assert {number: found.records for number, found in answer.statistics.items()} == {last: EACH}


def test_records_that_the_client_has_not_withdrawn_are_in_the_statistic(hostile: HostileServer) -> None:
    """A server knows hashes of records from withdrawals from other runs."""
    client = hostile.own.client("c0", 8, LABELS)
    with pytest.raises(ShareableError, match=re.escape(UNKNOWN)):
        hostile.ask(records=[client.hash_of(client.records[0].id)])


def test_statistics_are_made_for_a_run_only(hostile: HostileServer) -> None:
    with pytest.raises(ShareableError, match=re.escape(NO_RUN)):
        hostile.ask(run="")


def test_a_new_process_of_the_client_knows_its_pins(hostile: HostileServer) -> None:
    hostile.records(share=0.5)
    hostile.end()
    hostile.trainer = ClientTrainer(hostile.trainer.settings)
    with pytest.raises(ShareableError, match=r"it makes none with 0\.6 and 16"):
        hostile.ask(share=0.6)


def test_statistics_go_on_after_withdrawals(hostile: HostileServer) -> None:
    """Of a record and of a small slice; the second with the desk's answer lost on the way."""
    run = hostile.about["run"]
    assert hostile.records() == EACH
    client = hostile.own.client("c0", 8, LABELS, run)
    record = client.cut()[0][0].id
    hostile.own.withdraw([hostile.own.hash_of(record)], (), run)
    assert hostile.records(records=[client.hash_of(record)]) == EACH - 1
    sizes = hostile.own.client("c0", 8, LABELS, run).slice_sizes()
    index = next(index for index, size in enumerate(sizes) if 0 < size < LEAST_RECORDS)
    (outcome,) = withdraw(hostile.trainer.settings, Deletion("c0", slices=(index,)), run)
    assert outcome.state == "kept"
    left = EACH - 1 - sizes[index]
    assert hostile.records(records=[client.hash_of(record)], slices=[index]) == left
    hashes = [hostile.own.hash_of(record.id) for record in client.cut()[index]]
    hostile.own.withdraw(hashes, (), run)
    assert hostile.records(records=[client.hash_of(record)], slices=[index]) == left


def test_a_client_of_an_earlier_version_has_no_pins_yet(hostile: HostileServer) -> None:
    hostile.records()
    (hostile.trainer.settings.folder / PINS / f"{hostile.about['run']}.json").unlink()
    assert hostile.records(share=0.5) < EACH


def test_a_client_with_few_records_takes_no_part_and_nothing_fails(
    images: World, machines: Path, tmp_path: Path
) -> None:
    there = RemoteRun(machines, tmp_path / "run", small(images, "heads.share=0.2"))
    assert there.gathered() == {}
    assert there.display.troubles == [(name, f"takes no part in statistics: {FEW}") for name in NAMES]
