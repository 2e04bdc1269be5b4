"""The certificate of a request: what the ledger says of it, what is served from then on, and no name."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tiny_deletions import copied, problems, record_in, trained_run
from tiny_world import World

from fedsgt.build.statistics import renew_statistics
from fedsgt.certificates.keys import PublicKey, SigningKey
from fedsgt.certificates.signatures import read_certificate
from fedsgt.cli.views.certificate import certificate_text
from fedsgt.files.tensors import tensor_hash
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.statistics import read_statistic, statistic_tensors, statistics_in_force
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

# Modules in the top layer only, so that there are kept activations to destroy.
SETTINGS = ("peft.layers=1", "engine.trackers=[]")


@pytest.fixture(scope="module")
def source(images: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(images, tmp_path_factory.mktemp("source") / "run", SETTINGS)


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


def test_no_id_is_in_the_ledger_or_in_a_certificate(images: World, folder: RunFolder) -> None:
    client, record = record_in(images, folder, 1)
    answer = unlearn(folder, [Deletion(client, records=(record,))], key=f"{record} of {client}")
    entries = json.dumps([entry.body for entry in folder.ledger.entries()])
    assert answer.certificate is not None
    for text in (entries, answer.certificate.read_text()):
        assert record not in text
        assert f'"{client}"' not in text


def test_the_certificate_says_what_happened(images: World, folder: RunFolder) -> None:
    client, record = record_in(images, folder, 1)
    dead = {entry.key for entry in folder.description.modules if 1 in entry.groups}
    answer = unlearn(folder, [Deletion(client, records=(record,))])
    assert answer.certificate is not None
    found = read_certificate(answer.certificate, PublicKey.read(folder.path / "signing.pub"))
    assert found.request.position == answer.position
    assert {one.module for one in found.destroyed if one.kind == "module"} == dead
    assert {one.kind for one in found.destroyed} == {"module", "manifest", "activations", "metrics"}
    served = {module.key: module for module in found.served.modules}
    assert served.keys() == folder.present()
    for entry in folder.description.modules:
        if entry.key in served:
            marks = [found.served.groups[str(group)] for group in served[entry.key].prefix]
            assert marks == entry.prefix
            assert served[entry.key].sha256 == folder.modules.manifest(entry.key).sha256
    by_position = {entry.position: entry.hash for entry in folder.ledger.entries()}
    assert found.completion.ledger_hash == by_position[found.completion.position]


def test_a_damaged_module_elsewhere_does_not_stop_a_deletion(folder: RunFolder) -> None:
    key = folder.description.keys[2, 0]
    (folder.path / "modules" / key / "manifest.json").write_text("{")
    slices = [index for index, group in enumerate(folder.description.groups_of[0]) if group == 1]
    answer = unlearn(folder, [Deletion("c0", slices=tuple(slices))])
    assert answer.certificate is not None
    found = read_certificate(answer.certificate, PublicKey.read(folder.path / "signing.pub"))
    assert key not in {module.key for module in found.served.modules}


def test_another_signing_key_leaves_old_certificates_good(folder: RunFolder, tmp_path: Path) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,))])
    SigningKey.make(tmp_path / "new.key")
    settings = folder.config.unlearning.model_copy(update={"key": str(tmp_path / "new.key")})
    changed = RunFolder(
        folder.path, folder.config.model_copy(update={"unlearning": settings}), folder.description
    )
    (folder.path / "signing.pub").write_text("torn")
    answer = unlearn(changed, [Deletion("c1", slices=(0,))])
    assert answer.certificate is not None
    read_certificate(answer.certificate, PublicKey.read(folder.path / "signing.pub"))
    assert problems(changed) == []


def test_statistics_that_are_destroyed_and_those_that_count_are_named(images: World, tmp_path: Path) -> None:
    """Each chain's hash of statistics is one that a holder of the retained data can compute."""
    folder = copied(trained_run(images, tmp_path / "made", ["heads.solve=true"]), tmp_path / "run")
    client, record = record_in(images, folder, 1)
    before = statistics_in_force(folder, folder.live())
    answer = unlearn(folder, [Deletion(client, records=(record,))])
    assert answer.certificate is not None
    found = read_certificate(answer.certificate, PublicKey.read(folder.path / "signing.pub"))
    there = statistics_in_force(folder, folder.live())
    number = int(client.removeprefix("c"))
    gone = {one.name for one in found.destroyed if one.kind == "statistic"}
    left = {name.file for names in there.values() for name in names}
    assert gone == {name.file for names in before.values() for name in names} - left
    assert len(gone) == 4 * 1 + 6 * 4

    heads = found.served.heads
    assert heads is not None
    assert heads.files == left
    assert {chain.chain for chain in heads.chains} == {BARE, *folder.present()}
    for chain in heads.chains:
        lines, records = "", 0
        for name in there[chain.chain]:
            made = read_statistic(folder, name)
            assert made is not None
            lines += f"{name.client} {tensor_hash(statistic_tensors(made))}\n"
            records += made.records
        assert chain.clients == [other for other in range(4) if other != number]
        assert (chain.records, chain.sha256) == (records, hashlib.sha256(lines.encode()).hexdigest())
    text = certificate_text(found)
    assert "statistic 28" in text
    assert "solved heads   4 chains, from statistics of 3 clients, the bare backbone's of 36 records" in text

    # The next certificate has the client's new statistics.
    assert renew_statistics(folder) == 4
    answer = unlearn(folder, [Deletion("c0" if number else "c1", slices=(0,))])
    assert answer.certificate is not None
    again = read_certificate(answer.certificate, PublicKey.read(folder.path / "signing.pub")).served.heads
    assert again is not None
    assert again.marks[str(number)] == folder.live().mark_of(number)


def test_a_run_without_statistics_says_so(folder: RunFolder) -> None:
    answer = unlearn(folder, [Deletion("c0", slices=(0,))])
    assert answer.certificate is not None
    found = read_certificate(answer.certificate, PublicKey.read(folder.path / "signing.pub"))
    assert found.served.heads is not None
    assert found.served.heads.chains == []
    assert "solved heads   none" in certificate_text(found)
    assert "statistic" not in " ".join(found.statement.proved)


def test_a_statistic_with_a_damaged_header_is_not_listed(images: World, tmp_path: Path) -> None:
    folder = copied(trained_run(images, tmp_path / "made", ["heads.solve=true"]), tmp_path / "run")
    (folder.path / "statistics" / BARE / f"3-{folder.live().mark_of(3)}.safetensors").write_bytes(b"short")
    answer = unlearn(folder, [Deletion("c0", slices=(0,))])
    assert answer.certificate is not None
    heads = read_certificate(answer.certificate, PublicKey.read(folder.path / "signing.pub")).served.heads
    assert heads is not None
    assert {chain.chain: chain.clients for chain in heads.chains}[BARE] == [1, 2]
