"""The installed example, for real: a server and three clients as processes, from the keys to the proof."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from federation_world import LABELS, command, present, trained_here

from fedsgt.certificates.content import Certificate
from fedsgt.certificates.keys import PublicKey
from fedsgt.certificates.signatures import read_certificate
from fedsgt.config import load
from fedsgt.data import Columns, Record, labels_of, load_dataset
from fedsgt.federation.client.records import ClientRecords
from fedsgt.federation.example import NAMES
from fedsgt.federation.settings import load_client
from fedsgt.runs.folder import RunFolder, open_run

STEPS = "keys server client client client train evaluate withdraw withdraw status verify certificate"


@pytest.mark.slow
def test_the_example_runs_and_what_it_shows_is_so(tmp_path: Path) -> None:
    folder = tmp_path / "federation"
    done = command("demo", "--federated", "-o", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^\$ fedsgt (\w+)", done.stdout, re.MULTILINE) == STEPS.split()
    # Flower's own process looks every few seconds whether its parent is still there.
    for _ in range(300):
        if not list(_processes_of(folder)):
            break
        time.sleep(0.1)
    assert not list(_processes_of(folder)), "all have ended"
    run = open_run(folder / "server/runs/example")
    certificate = _certificate(folder, run)
    _check_modules(folder, tmp_path, run, certificate)
    _check_requests(folder, run, certificate)
    ids = pq.read_table(folder / "a/records.parquet").column("id").to_pylist()
    assert ids == [record.id for record in _dealt("a")], "the file is its owner's: it stays as it is"
    for name in NAMES:
        _check_kept_secret(folder, name)
        assert not list((folder / name / "state/modules").iterdir())


def _check_modules(folder: Path, elsewhere: Path, run: RunFolder, certificate: Certificate) -> None:
    """All were the in-process engine's before the deletion; those that live are so after it, too."""
    config = load(folder / "example.toml")
    then = trained_here(elsewhere / "then", config, _before(folder, elsewhere / "before"))
    now = trained_here(
        elsewhere / "now", config, [ClientRecords(load_client(folder / name)) for name in NAMES]
    )
    live, trained, retained = present(run), present(then), present(now)
    assert len(live) == 3
    assert live.items() <= trained.items()
    assert live.items() <= retained.items()
    died = {entry.module: entry.sha256 for entry in certificate.destroyed if entry.kind == "manifest"}
    texts = {key: then.path / "modules" / key / "manifest.json" for key, _ in trained.values()}
    dead = {key: text.read_bytes() for key, text in texts.items() if key not in run.present()}
    assert died == {key: hashlib.sha256(text).hexdigest() for key, text in dead.items()}
    assert died.keys().isdisjoint(key for key, _ in retained.values())


def _check_requests(folder: Path, run: RunFolder, certificate: Certificate) -> None:
    """One was carried out; the other left a line in the log and nothing in the ledger."""
    (request,) = run.live().requests
    assert request.position == certificate.request.position
    # The first certificate of a run is signed after the ledger has its key.
    assert run.ledger.head() == certificate.completion.position + 1 == certificate.keys[-1].position
    (line,) = (folder / "server/refused.jsonl").read_text().splitlines()
    refused = json.loads(line)
    assert (refused["reason"], refused["client"], refused["run"]) == ("forged", "a", run.description.id)


def _check_kept_secret(folder: Path, name: str) -> None:
    """Nobody else's file names a record of the client, or has what its slices and hashes are made with."""
    own, ids = ClientRecords(load_client(folder / name)), {record.id.encode() for record in _dealt(name)}
    secrets = [
        own.salt,
        own.salt.hex().encode(),
        base64.b64encode(own.salt).rstrip(b"="),
        own.slicing_seed.encode(),
        bytes.fromhex(own.slicing_seed),
    ]
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_relative_to(folder / name):
            data = path.read_bytes()
            assert ids.isdisjoint(re.findall(rb"digits-[0-9]{4}", data)), path
            assert not any(secret in data for secret in secrets), path


def _certificate(folder: Path, run: RunFolder) -> Certificate:
    (path,) = (folder / "a/certificates").iterdir()
    return read_certificate(path, PublicKey.read(run.path / "signing.pub"))


def _before(folder: Path, copies: Path) -> list[ClientRecords]:
    """The clients as they were dealt their records: same salts, and nothing withdrawn."""
    for name in NAMES:
        (copies / name).mkdir(parents=True)
        for file in ("client.toml", "salt"):
            shutil.copy(folder / name / file, copies / name / file)
        part = _dealt(name)
        ids, images = [record.id for record in part], [record.content[0] for record in part]
        columns = {"id": ids, "label": labels_of(part), "image": images}
        pq.write_table(pa.table(columns), copies / name / "records.parquet")
    return [ClientRecords(load_client(copies / name)) for name in NAMES]


def _dealt(name: str) -> tuple[Record, ...]:
    records = load_dataset("digits", Columns(("image",)), labels=LABELS).records
    return records[NAMES.index(name) :: len(NAMES)]


def _processes_of(folder: Path) -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if str(folder).encode() in line:
            yield line
