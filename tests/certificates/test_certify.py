"""The certificate of a request: what the ledger says of it, what is served from then on, and no name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_deletions import copied, problems, record_in, trained_run
from tiny_world import World

from fedsgt.certificates.keys import PublicKey, SigningKey
from fedsgt.certificates.signatures import read_certificate
from fedsgt.runs.folder import RunFolder
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
