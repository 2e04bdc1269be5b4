"""Verification of statistics: honest ones are the same, bit for bit, and a planted one is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rebuild_child import warm
from tiny_world import Quiet, World

from fedsgt.build.client_access import LocalClients
from fedsgt.build.prepare import Prepared, prepare_again
from fedsgt.build.statistics import renew_statistics, statistic_task
from fedsgt.build.train import train
from fedsgt.cli.views.proof import verification_text
from fedsgt.config import Config
from fedsgt.config.systems import system_settings
from fedsgt.engine.events import Listener
from fedsgt.engine.inprocess import InProcess
from fedsgt.engine.task import Engine, StatisticTask
from fedsgt.proof.rebuild import rebuild
from fedsgt.proof.rebuild_process import NotRebuilt, Progress, not_rebuilt
from fedsgt.proof.verify import Verification, verify
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder, open_run, read_run
from fedsgt.runs.records import load_clients, load_run_clients
from fedsgt.runs.statistics import (
    StatisticName,
    discard_damaged,
    present_statistics,
    statistics_in_force,
    write_statistic,
)
from fedsgt.stack.statistics import Statistic
from fedsgt.unlearning.outgoing import Outgoing
from fedsgt.unlearning.renewal import renew
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept, unlearn

pytestmark = pytest.mark.usefixtures("temporary")


@pytest.fixture(scope="module")
def config(images: World) -> Config:
    return images.config("peft.layers=1", "heads.solve=true", "heads.share=0.8")


# Of this module: the session's own, which other modules share, is made with another configuration.
@pytest.fixture(scope="module")
def trained(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify-statistics") / "run"
    train(config, path, Quiet()).ledger.close()
    return path


def same(found: Verification, statistics: int, waiting: int = 0) -> bool:
    wrong = [entry for entry in found.statistics if entry.verdict != "same"]
    assert found.statistic_counts == ({"same": statistics} if statistics else {}), wrong
    assert found.waiting == waiting
    return found.passed and not found.failed


def wrong(found: Verification) -> dict[str, str]:
    """Return the verdicts of statistics that are not the same, by file; their modules must be right."""
    assert found.counts.keys() <= {"same"}
    assert found.failed
    return {entry.file: entry.verdict for entry in found.statistics if entry.verdict != "same"}


def delete(folder: RunFolder, images: World, client: str, number: int = 0) -> str:
    """Delete one record of a client, subtract it from its statistics, and return its id."""
    row = [row for row in images.rows if row.client == client][number]
    outgoing = Outgoing()
    unlearn(folder, [Deletion(client, records=(row.id,))], outgoing=outgoing)
    assert outgoing.statistics
    assert renew(folder, outgoing)
    return row.id


def statistic(folder: RunFolder, config: Config, name: StatisticName, whole: bool) -> Statistic:
    """Return the statistic of this name as an engine makes it; if `whole`, of deleted records too."""
    live = folder.live()
    known = live.description
    loaded = load_clients(config, known) if whole else load_run_clients(folder, known, live.deleted)
    prepared = prepare_again(config, loaded, known, known.plan_made())
    prefixes = {key: groups for groups, key in known.keys.items()} | {BARE: ()}
    task = statistic_task(known.chain(prefixes[name.chain]), prepared.clients[name.client])
    with InProcess(prepared.setup(folder.modules, None), prepared.model.stack) as engine:
        ((_, found),) = engine.statistics([task])
    return found


def in_force(folder: RunFolder) -> list[StatisticName]:
    return [name for names in statistics_in_force(folder, folder.live()).values() for name in names]


def test_all_statistics_of_a_whole_run(folder: RunFolder) -> None:
    shares: list[float] = []
    found = verify(folder, command=warm(), progress=shares.append)
    assert same(found, 10 * 4)
    assert {entry.groups for entry in found.statistics} == {(), *folder.description.keys}
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert "40 statistics of 10 chains made again: the same, bit for bit" in verification_text(found)


def test_honest_statistics_after_deletions_that_were_subtracted(
    folder: RunFolder, images: World, tmp_path: Path
) -> None:
    """Two deletions of one client and one of another; what is left has the bytes of a making anew."""
    gone = [delete(folder, images, "c0"), delete(folder, images, "c0", 1), delete(folder, images, "c2")]
    found = verify(folder, command=warm(), keep=tmp_path / "kept")
    assert same(found, len(in_force(folder)))
    assert {entry.client for entry in found.statistics} == {"c0", "c1", "c2", "c3"}
    data = b"".join(file.read_bytes() for file in (tmp_path / "kept").rglob("*") if file.is_file())
    for row in images.rows:
        assert isinstance(row.content, bytes)
        assert (row.id.encode() in data, row.content in data) == (row.id not in gone,) * 2


def test_a_planted_statistic_that_contains_a_deleted_record(
    folder: RunFolder, images: World, config: Config
) -> None:
    """Its name, its mark and the hash in its note are right; only its sums know better."""
    for number in range(3):  # one may not be in the client's sample
        delete(folder, images, "c1", number)
    chain = next(name.chain for name in in_force(folder) if name.chain != BARE)
    planted = [StatisticName(chain, 1, folder.live().mark_of(1)) for chain in (BARE, chain)]
    for name in planted:
        assert name in in_force(folder)
        write_statistic(folder, name, statistic(folder, config, name, whole=False))
    assert verify(folder, command=warm()).passed
    for name in planted:
        write_statistic(folder, name, statistic(folder, config, name, whole=True))
    found = verify(folder, command=warm())
    assert wrong(found) == {name.file: "different" for name in planted}
    text = verification_text(found)
    assert text.startswith("FAILED: something is there, or was, that the retained data does not account for")
    assert f"{planted[0].file}, of client c1: different: not that of the client's " in text


def test_a_statistic_of_another_sample(folder: RunFolder, config: Config) -> None:
    """Records of another share, or chosen by another secret, are others."""
    name = StatisticName(BARE, 0, folder.live().mark_of(0))
    other = config.model_copy(update={"heads": config.heads.model_copy(update={"share": 0.4})})
    write_statistic(folder, name, statistic(folder, other, name, whole=True))
    assert wrong(verify(folder, command=warm())) == {name.file: "different"}


def test_one_of_another_clients_records(folder: RunFolder, config: Config) -> None:
    name = StatisticName(BARE, 0, folder.live().mark_of(0))
    write_statistic(folder, name, statistic(folder, config, replace(name, client=1), whole=True))
    assert wrong(verify(folder, command=warm())) == {name.file: "different"}


def test_damaged_ones_are_named_and_made_anew(folder: RunFolder) -> None:
    first, second = in_force(folder)[:2]
    for name, cut in ((first, 5), (second, -1)):
        file = folder.path / name.file
        file.write_bytes(file.read_bytes()[:cut])
    found = verify(folder, command=warm())
    assert wrong(found) == {first.file: "damaged", second.file: "damaged"}
    assert verification_text(found).startswith("FAILED: damaged statistics, which no head is solved from")
    assert discard_damaged(folder) == 2
    assert renew_statistics(folder) == 2
    assert same(verify(folder, command=warm()), 40)


def test_training_makes_a_damaged_one_anew(folder: RunFolder, config: Config) -> None:
    name = in_force(folder)[0]
    file = folder.path / name.file
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    train(config, folder.path, Quiet())
    assert file.read_bytes() == whole


def test_missing_ones_are_no_failure_but_counted(folder: RunFolder) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,))])
    chains = len({name.chain for name in in_force(folder)})
    found = verify(folder, command=warm())
    assert same(found, 3 * chains, waiting=chains)
    assert f"{chains} statistics not made yet; fedsgt heads makes them" in verification_text(found)


def test_one_that_should_have_been_destroyed(folder: RunFolder) -> None:
    name = StatisticName(BARE, 0, folder.live().mark_of(0))
    data = (folder.path / name.file).read_bytes()
    unlearn(folder, [Deletion("c0", slices=(0,))])
    assert name not in present_statistics(folder)
    (folder.path / name.file).write_bytes(data)
    assert wrong(verify(folder, sample=1, command=warm())) == {name.file: "not destroyed"}


def test_deletions_that_are_not_completed(folder: RunFolder, images: World) -> None:
    row = next(row for row in images.rows if row.client == "c3")
    accept(folder, [Deletion("c3", records=(row.id,))])
    found = verify(folder, command=warm())
    assert found.statistic_counts["not destroyed"] >= 10
    assert found.failed


def test_one_of_a_client_that_has_no_record_left(folder: RunFolder) -> None:
    unlearn(folder, [Deletion("c2")])
    name = StatisticName(BARE, 2, folder.live().mark_of(2))
    source = StatisticName(BARE, 1, folder.live().mark_of(1))
    (folder.path / name.file).write_bytes((folder.path / source.file).read_bytes())
    found = verify(folder, command=warm())
    assert wrong(found) == {name.file: "different"}
    assert "the client has no record left" in verification_text(found)


def test_a_sample_looks_at_its_own_chains(folder: RunFolder) -> None:
    found = verify(folder, sample=1, seed=4, command=warm())
    chains = {module.groups for module in found.modules}
    assert {entry.groups for entry in found.statistics} == {(), *chains}
    assert same(found, 4 * (1 + len(chains)))


def test_a_run_without_a_live_module(folder: RunFolder, config: Config) -> None:
    """The bare backbone's head goes on answering, so its statistics are still verified."""
    groups_of = folder.description.groups_of
    requests = [
        next(
            (f"c{client}", index)
            for client, groups in enumerate(groups_of)
            for index, own in enumerate(groups)
            if own == group
        )
        for group in range(3)
    ]
    unlearn(folder, [Deletion(client, slices=(index,)) for client, index in requests])
    assert renew_statistics(folder)
    found = verify(folder, command=warm())
    assert (found.modules, found.served) == ((), 0)
    assert same(found, len(in_force(folder)))
    assert len(found.statistics) >= 3
    assert "of 1 chain made again: the same, bit for bit" in verification_text(found)
    name = in_force(folder)[0]
    write_statistic(
        folder,
        name,
        statistic(folder, config, name, whole=False) + statistic(folder, config, name, whole=False),
    )
    assert wrong(verify(folder, command=warm())) == {name.file: "different"}


def test_a_run_of_the_system_ridge(images: World, tmp_path: Path) -> None:
    """It trains no module at all."""
    settings = images.config("heads.solve=true", *system_settings("ridge"))
    folder = train(settings, tmp_path / "ridge", Quiet())
    assert folder.description.modules == []
    delete(folder, images, "c1")
    found = verify(folder, command=warm())
    assert same(found, 4)
    assert verification_text(found).startswith("passed: every statistic looked at is, bit for bit,")


def test_another_machine_and_another_profile_are_no_failure(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = in_force(folder)[0]
    with monkeypatch.context() as patch:
        patch.setattr("fedsgt.stack.profile.machine", lambda: {"cpu": "another"})
        write_statistic(folder, name, Statistic.empty(32, 3, 16))
    found = verify(folder, command=warm())
    assert found.statistic_counts == {"same": 39, "not comparable": 1}
    assert (found.passed, found.failed) == (False, False)
    found = verify(folder, command=warm("other_profile"))
    assert found.statistic_counts == {"not comparable": 40}
    assert verification_text(found).startswith("UNDECIDED")


class Declining(LocalClients):
    """Clients of which one takes no part in statistics this time."""

    @contextmanager
    def engine(self, folder: RunFolder, prepared: Prepared, tell: Listener) -> Iterator[Engine]:
        with super().engine(folder, prepared, tell) as engine:
            assert isinstance(engine, InProcess)
            whole = engine.statistics

            def statistics(tasks: Sequence[StatisticTask]) -> Iterator[tuple[StatisticTask, Statistic]]:
                return whole([task for task in tasks if task.client != "c2"])

            engine.statistics = statistics  # type: ignore[method-assign]
            yield engine


def test_a_client_that_takes_no_part_again_is_left_out(folder: RunFolder) -> None:
    """As a remote client may; nothing is shown of its statistics, and nothing is wrong."""

    def again(path: Path, seed: int, check: Callable[[], None], progress: Progress) -> NotRebuilt:
        told: list[dict[str, Any]] = []
        rebuild(read_run(path), seed, told.append, Declining())
        return not_rebuilt(told)

    found = verify(folder, sample=1, seed=4, rebuild=again)
    chains = 1 + len(found.modules)
    assert found.statistic_counts == {"same": 3 * chains, "not comparable": chains}
    assert {one.client for one in found.statistics if one.verdict != "same"} == {"c2"}
    assert (found.passed, found.failed) == (False, False)
    assert "the client did not send it again" in verification_text(found)


def test_the_result_is_json(folder: RunFolder) -> None:
    found = verify(open_run(folder.path), sample=1, command=warm()).to_json()
    assert found["statistic_counts"] == {"same": len(found["statistics"])}
    assert found["waiting"] == 0
    first = found["statistics"][0]
    assert (folder.path / first["file"]).is_file()
    assert first["client"] in {"c0", "c1", "c2", "c3"}
