"""A run that an earlier version made opens, serves, deletes and verifies as it did then."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import fedsgt
from tiny_deletions import problems
from tiny_world import Quiet

from fedsgt.build.prepare import prepare
from fedsgt.build.targets import make_targets
from fedsgt.build.train import train
from fedsgt.certificates.keys import PublicKey
from fedsgt.certificates.signatures import read_certificate
from fedsgt.errors import InputError
from fedsgt.proof.verify import verify
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.records import load_run_clients
from fedsgt.stack import profile
from fedsgt.unlearning.recovery import Recovery, recover, unfinished
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

FIXTURES = Path(__file__).parents[1] / "fixtures"
VERSIONS = ["0.1.0"]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(version: str, tmp_path: Path) -> RunFolder:
    shutil.copytree(FIXTURES / f"run-{version}", tmp_path / "run")
    (tmp_path / "run" / "signing.key").chmod(0o600)  # git keeps no modes
    return open_run(tmp_path / "run")


def same_profile(folder: RunFolder) -> bool:
    """Whether this machine computes exactly as the one that made the run."""
    # Its profile has no probe, so that another processor may round otherwise under the same profile.
    made = folder.modules.manifest(min(folder.present())).machine
    return folder.description.profile.items() <= profile.describe("cpu").items() and made == profile.machine()


def test_it_opens_with_its_deletion_in_force(folder: RunFolder) -> None:
    live = folder.live()
    assert [request.position for request in live.requests] == [3]
    assert live.finished == {3}
    assert (unfinished(folder), recover(folder)) == ([], Recovery())
    assert folder.present() == {entry.key for entry in live.modules()} != set()
    assert all(folder.modules.state(key) == "present" for key in folder.present())


def test_it_is_migrated_when_it_is_first_opened(folder: RunFolder) -> None:
    described = folder.live().description
    assert described.format == 2
    assert all(client.register_hash is not None for client in described.clients)
    head = folder.ledger.head()
    assert open_run(folder.path).ledger.head() == head, "once only"


def test_a_record_of_it_can_be_deleted_by_its_id(folder: RunFolder) -> None:
    live = folder.live()
    client = load_run_clients(folder, live.description, live.deleted).local[0]
    record = client.records[0].id
    assert unlearn(folder, [Deletion(client.name, records=(record,))]).records == 1


def test_its_module_keys_are_those_of_today(folder: RunFolder) -> None:
    """Under the profile that it was made with, so that this holds on any machine."""
    description = folder.description
    prepared = prepare(folder.config, description)
    assert prepared.recipe.profile.keys() == description.profile.keys() != profile.describe("cpu").keys()
    recipe = replace(prepared.recipe, profile=description.profile)
    assert (recipe.config_hash, recipe.backbone) == (description.config_hash, description.backbone)
    targets = make_targets(recipe, prepared.clients, prepared.grouping, prepared.plan)
    assert {target.groups: (target.key, list(target.prefix)) for target in targets} == {
        tuple(entry.groups): (entry.key, entry.prefix) for entry in description.modules
    }


def test_it_predicts_what_it_predicted_then(folder: RunFolder, version: str) -> None:
    done = fedsgt("predict", str(folder.path), "--test", "--jsonl")
    assert done.returncode == 0, done.stderr
    now = lines(done.stdout)
    then = lines((FIXTURES / f"run-{version}.predictions.jsonl").read_text())
    for line in (*then, *now):
        del line["position"]  # opening the run has added an entry: its migration
    if same_profile(folder):
        assert now == then
    for before, after in zip(then, now, strict=True):
        assert after["id"] == before["id"]
        assert after["probabilities"] == pytest.approx(before["probabilities"], abs=1e-5)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_its_certificate_still_verifies(folder: RunFolder) -> None:
    (path,) = (folder.path / "certificates").iterdir()
    found = read_certificate(path, PublicKey.read(folder.path / "signing.pub"))
    assert found.request.position == 3
    chain = {entry.position: entry.hash for entry in folder.ledger.entries()}
    assert chain[found.completion.position] == found.completion.ledger_hash
    assert {module.key for module in found.served.modules} == folder.present()
    done = fedsgt("certificate", "verify", str(path), "--key", str(folder.path / "signing.pub"))
    assert done.returncode == 0, done.stderr


def test_its_audit_is_clean(folder: RunFolder) -> None:
    assert problems(folder) == []


def test_a_further_deletion_works(folder: RunFolder) -> None:
    before = folder.present()
    answer = unlearn(folder, [Deletion("client-2", slices=(0,))], key="case-2")
    hit = set(answer.groups)
    live = {entry.key for entry in folder.description.modules if hit.isdisjoint(entry.groups)}
    assert folder.present() == before & live
    assert answer.certificate is not None
    found = read_certificate(answer.certificate, PublicKey.read(folder.path / "signing.pub"))
    assert {module.key for module in found.served.modules} <= folder.present()
    assert problems(folder) == []
    again = unlearn(folder, [Deletion("client-1", slices=(0,))], key="case-1")
    assert again.repeated, "the key of the first request is known"
    assert again.position == 3


def test_it_verifies(folder: RunFolder) -> None:
    """Bit by bit where this machine computes as that one did; elsewhere it says that it cannot compare."""
    found = verify(folder)
    expected = "same" if same_profile(folder) else "not comparable"
    assert {checked.verdict for checked in found.modules} == {expected}
    assert not found.failed


def test_it_is_retrained(folder: RunFolder) -> None:
    """Under the profile fields that it was made with; elsewhere the difference is named."""
    if not same_profile(folder):
        with pytest.raises(InputError, match="the execution profile changed"):
            train(folder.config, folder.path, Quiet(), recover)
        return
    before = folder.present()
    again = train(folder.config, folder.path, Quiet(), recover)
    assert again.present() > before
    assert again.present() == {entry.key for entry in again.live().description.modules}
    assert problems(again) == []
