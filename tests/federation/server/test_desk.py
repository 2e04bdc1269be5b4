"""The desk, a process of its own behind TLS: it does what clients may ask, once, and refuses the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from remote_world import desk_process, make_federation

from fedsgt.certificates.keys import PublicKey
from fedsgt.certificates.signatures import read_certificate
from fedsgt.federation.keys import load_private
from fedsgt.federation.server.desk import REFUSED, RefusalLog
from fedsgt.federation.signed_request import check_request, sign_request
from fedsgt.proof.audit import audit
from fedsgt.unlearning.unlearn import accept_parts, unfinished

if TYPE_CHECKING:
    from tests.federation.server.conftest import Scene


def test_an_answer_means_that_it_is_done(scene: Scene) -> None:
    asked = scene.asked("a", "a00", "a01")
    response = scene.send(asked)
    assert response.status_code == 200
    told, folder = response.json(), scene.federation.run()
    assert told.keys() == {
        *("position", "time", "records", "groups", "modules_died", "in_force", "pending", "certificate")
    }
    assert (told["in_force"], told["pending"]) == (True, None)
    assert told["records"] == 2
    (request,) = folder.live().requests
    assert (request.position, request.body["groups"]) == (told["position"], told["groups"])
    assert folder.present() == {entry.key for entry in folder.live().modules()}
    assert not unfinished(folder)
    written = folder.path / "certificates" / f"{told['position']:06d}.json"
    assert json.loads(written.read_text()) == told["certificate"]
    certificate = read_certificate(written, PublicKey.read(folder.path / "signing.pub"))
    assert certificate.request.parts[0].client == asked["body"]["client_hash"]
    assert [finding for finding in audit(folder) if finding.problem] == []
    assert "torch" not in Path(f"/proc/{scene.process.pid}/maps").read_text(), "a deletion loads no torch"


def test_the_same_again_is_refused_and_told_what_was_answered(scene: Scene) -> None:
    asked = scene.asked("a", "a02")
    first, head = scene.send(asked).json(), scene.head()
    again = scene.send(asked)
    assert (again.status_code, again.json()["error"]) == (409, "replayed")
    assert again.json()["first"] == first
    assert scene.refusals()[-1]["reason"] == "replayed"
    assert scene.head() == head


def test_another_request_under_the_same_number(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    used = scene.asked("a", "a03")
    scene.send(used)
    monkeypatch.setattr("secrets.token_hex", lambda size: used["body"]["nonce"])
    head, other = scene.head(), scene.asked("a", "a04")
    again = scene.send(other)
    assert again.json().keys() == {"error", "message"}, "what others were answered is not for everybody"
    assert (again.status_code, again.json()["error"]) == (409, "replayed")
    assert scene.head() == head


def other_key(scene: Scene) -> object:
    return scene.asked("a", "a05", key="b")


def other_run(scene: Scene) -> object:
    asked = scene.asked("a", "a05")
    return {**asked, "body": {**asked["body"], "run": "0" * 32}}


def other_record(scene: Scene) -> object:
    asked, other = scene.asked("a", "a05"), scene.asked("a", "a06")
    records = {name: other["body"][name] for name in ("records", "slices")}
    return {**asked, "body": {**asked["body"], **records}}


def other_client(scene: Scene) -> object:
    asked = scene.asked("a", "a05")
    return {**asked, "body": {**asked["body"], "client": "b"}}


def unknown_client(scene: Scene) -> object:
    asked = scene.asked("a", "a05")
    return {**asked, "body": {**asked["body"], "client": "z" * 150}}


def no_such_slice(scene: Scene) -> object:
    federation = scene.federation
    key = load_private(federation.settings("a").key)
    return sign_request(key, federation.run().description.id, federation.client("a"), [99])


def no_request(scene: Scene) -> object:
    return {"body": {"client": "a", "run": 7}, "signature": "AAAA"}


@pytest.mark.parametrize(
    ("make", "status", "code"),
    [
        (other_key, 403, "forged"),
        (other_record, 403, "forged"),
        (other_client, 403, "forged"),
        (other_run, 404, "unknown-run"),
        (unknown_client, 404, "unknown-client"),
        (no_such_slice, 422, "out-of-range"),
        (no_request, 400, "malformed"),
    ],
)
def test_refused_logged_and_nothing_done(
    scene: Scene, make: Callable[[Scene], object], status: int, code: str
) -> None:
    head, before, envelope = scene.head(), len(scene.refusals()), make(scene)
    response = scene.send(envelope)
    assert (response.status_code, response.json()["error"]) == (status, code)
    assert response.json().keys() == {"error", "message"}
    assert scene.head() == head
    (line,) = scene.refusals()[before:]
    assert line.keys() == {"time", "reason", "client", "run", "sha256"}
    assert line["reason"] == code
    assert len(line["client"]) <= 100
    assert isinstance(envelope, dict)
    assert envelope["signature"] not in json.dumps(line)


def test_several_at_once(scene: Scene) -> None:
    """Each is done once, whoever comes first; the twins of one are told its answer."""
    asked = [scene.asked("b", f"b{number:02d}") for number in range(4)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(scene.send, asked * 2))
    assert sorted(response.status_code for response in found) == [200] * 4 + [409] * 4
    answers = {json.dumps(r.json().get("first") or r.json(), sort_keys=True) for r in found}
    assert len(answers) == 4
    hashes = [part["records"] for entry in scene.federation.requests() for part in entry.body["parts"]]
    assert all(hashes.count(next(iter(each["body"]["records"].values()))) == 1 for each in asked)


def test_what_was_accepted_before_a_stop_is_finished_at_the_next_start(tmp_path: Path) -> None:
    federation = make_federation(tmp_path / "fed")
    folder, key = federation.run(), load_private(federation.settings("a").key)
    envelope = sign_request(key, folder.description.id, federation.client("a"), [0])
    found = check_request(envelope, folder.live())
    accept_parts(folder, found.parts, found.content, found.key)
    assert len(unfinished(folder)) == 1
    folder.ledger.close()
    with desk_process(federation.server):
        assert not unfinished(federation.run())


def test_the_log_of_refusals_cannot_fill_the_disk(tmp_path: Path) -> None:
    refusals = RefusalLog(tmp_path / REFUSED, limit=1000)
    for number in range(100):
        refusals.note("forged", b"%d" % number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["refused.1.jsonl", "refused.jsonl"]
    assert all(path.stat().st_size < 1300 for path in tmp_path.iterdir())
    last = json.loads((tmp_path / REFUSED).read_text().splitlines()[-1])
    assert (last["client"], last["run"]) == (None, None)


def test_a_pending_request_is_said_to_be_in_force_and_completed_when_sent_again(
    scene: Scene, tmp_path: Path
) -> None:
    federation = make_federation(tmp_path / "fed")
    place = federation.run().path / "signing.pub"
    (place / "in the way").mkdir(parents=True)
    with desk_process(federation.server) as process:
        own = replace(scene, federation=federation, process=process)
        asked = own.asked("a", "a00")
        first = own.send(asked)
        assert first.status_code == 200
        assert (first.json()["in_force"], first.json()["certificate"]) == (True, None)
        assert first.json()["pending"].startswith("the deletion is in force; ")
        assert "signing" not in first.text, "the server's own files are not for the client to know"
        assert [entry.position for entry in federation.requests()] == [first.json()["position"]]
        other = own.send(own.asked("b", "b00"))
        assert other.json()["in_force"], "one that is pending does not stop others"
        again = own.send(asked)
        assert again.json()["first"] == first.json()
        (place / "in the way").rmdir()
        place.rmdir()
        done = own.send(asked).json()["first"]
        assert done["pending"] is None
        written = federation.run().path / "certificates" / f"{done['position']:06d}.json"
        assert json.loads(written.read_text()) == done["certificate"]
        assert not unfinished(federation.run())


def test_a_request_that_cannot_be_completed_is_not_accepted(scene: Scene, tmp_path: Path) -> None:
    federation = make_federation(tmp_path / "fed")
    (federation.run().path / "signing.key").write_text("nonsense")
    with desk_process(federation.server) as process:
        own = replace(scene, federation=federation, process=process)
        refused = own.send(own.asked("a", "a00"))
    assert refused.status_code == 500
    assert refused.json()["message"].startswith("the deletion is not in force")
    assert federation.requests() == []
