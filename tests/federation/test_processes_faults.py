"""Faults of a federation of real processes: who is killed, late or hostile, and what comes of training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from federation_world import Federation, clients_with_records, participants, present, trained_here, until

pytestmark = pytest.mark.slow

EACH = 60
# Long enough to be caught in the middle of a round, once it is seen to have begun.
LONG = ("training.epochs=20",)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    federation = Federation(tmp_path_factory.mktemp("federation"), EACH)
    try:
        yield federation
    finally:
        federation.bring_down()


@pytest.fixture
def federation(running: Federation) -> Iterator[Federation]:
    running.misbehave("well")
    running.bring_up()
    yield running
    running.stop_trainings()


def test_a_killed_client_is_waited_for_and_the_end_is_the_same(
    federation: Federation, tmp_path: Path
) -> None:
    training = federation.train("waits", *LONG, "engine.absent=wait")
    training.until(lambda: bool(_modules_on(federation, "b")), "b is in the second round")
    federation.kill("b")
    before = present(federation.run("waits"))
    assert set(map(len, before)) == {1}, "the second round is not over"
    federation.start("b")
    said = training.end()
    assert "client b: was started again; waiting for it" in said or "client b: gave no answer" in said
    here = trained_here(tmp_path / "here", federation.config(*LONG), federation.owners())
    assert present(federation.run("waits")) == present(here)
    assert participants(federation.run("waits")) == clients_with_records(federation.run("waits"))
    assert not any(_modules_on(federation, name) for name in federation.names)


def test_the_round_goes_on_without_a_killed_client_and_is_verified_with_it(federation: Federation) -> None:
    training = federation.train("goes-on", *LONG, "engine.absent=go-on", "engine.timeout=40")
    training.until(lambda: bool(_modules_on(federation, "b")), "b is in the second round")
    federation.kill("b")
    said = training.end()
    assert "client b: has not answered for 40 s; the round goes on without it" in said
    folder = federation.run("goes-on")
    took_part = participants(folder)
    for groups, names in clients_with_records(folder).items():
        assert took_part[groups] == (names if len(groups) == 1 else names - {"b"})
    assert _modules_on(federation, "b"), "what the dead client was sent"
    federation.start("b")
    until(lambda: not _modules_on(federation, "b"), "it removes that when it is started again")
    federation.bring_up()
    done = federation.verify("goes-on")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 same; of 9 modules" in done.stdout


def test_a_killed_server_goes_on_after_the_last_finished_round(
    federation: Federation, tmp_path: Path
) -> None:
    training = federation.train("resumes", *LONG)
    training.until(lambda: bool(_modules_on(federation, "a")), "a is in the second round")
    federation.kill("server")
    said = training.end(expected=2)
    assert said.splitlines()[-1].startswith("fedsgt: no SuperLink of this server answers")
    finished = _stamps(federation, "resumes")
    assert set(map(len, finished)) == {1}
    federation.bring_up()
    said = federation.train("resumes", *LONG).end()
    assert "9 modules of 3 sequences; 6 trained now" in said
    assert _stamps(federation, "resumes").items() >= finished.items(), "finished modules are kept"
    here = trained_here(tmp_path / "here", federation.config(*LONG), federation.owners())
    assert present(federation.run("resumes")) == present(here)
    for name in federation.names:
        assert federation.said(name).count(f"{name}: connected") >= 2


def test_updates_that_are_not_what_was_asked_for_are_refused_by_name(federation: Federation) -> None:
    federation.misbehave("bad")
    said = federation.train("hostile", "training.epochs=1").end()
    refused = [line for line in said.splitlines() if line.startswith("  client c: update refused")]
    for reason in (
        "holds a NaN value",
        "it should be float32 of shape",
        "head.classifier.bias is missing",
        "from where it began; at most 1000",
        "records; it registered",
        "bytes; at most",
    ):
        assert any(reason in line for line in refused), said
    folder = federation.run("hostile")
    expected = {groups: names - {"c"} for groups, names in clients_with_records(folder).items()}
    assert participants(folder) == expected
    assert len(refused) == sum("c" in names for names in clients_with_records(folder).values())
    done = federation.verify("hostile")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_slow_client_is_left_out_by_name(federation: Federation) -> None:
    federation.misbehave("late")
    patience = ("engine.absent=go-on", "engine.timeout=30")
    said = federation.train("slow", "training.epochs=1", "grouping.groups=2", *patience).end()
    assert said.count("client c: has not answered for 30 s; the round goes on without it") == 2
    folder = federation.run("slow")
    assert participants(folder) == {
        groups: names - {"c"} for groups, names in clients_with_records(folder).items()
    }


def _modules_on(federation: Federation, name: str) -> list[Path]:
    """Modules of others that the client was sent: there are some from the second round on, until the end."""
    return list((federation.folder / name / "state/modules").glob("*.safetensors"))


def _stamps(federation: Federation, name: str) -> dict[tuple[int, ...], int]:
    """When each module that is there was written."""
    folder = federation.run(name)
    keys = folder.description.keys
    return {
        groups: (folder.path / "modules" / keys[groups] / "manifest.json").stat().st_mtime_ns
        for groups in present(folder)
    }
