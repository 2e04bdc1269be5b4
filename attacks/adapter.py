"""Everything that the campaigns call of fedsgt, one small function each; all run in child processes.

Each opens the run anew, as a command does. If a function of the package changes, it changes here only.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attacks.children import Tell
from fedsgt.build.train import train
from fedsgt.certificates.keys import public_keys
from fedsgt.certificates.signatures import read_certificate
from fedsgt.config import Config
from fedsgt.data import Client, Record
from fedsgt.engine.events import ignore
from fedsgt.errors import InputError
from fedsgt.proof import rebuild as rebuilding
from fedsgt.proof.audit import audit
from fedsgt.proof.rebuild_process import not_rebuilt
from fedsgt.proof.verify import verify
from fedsgt.reporting.report import write_report
from fedsgt.runs import folder as folders
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.runs.kept_records import write_kept
from fedsgt.serving.evaluation import evaluate
from fedsgt.serving.export import export_sequence
from fedsgt.serving.predictor import Exhausted, Predictor
from fedsgt.unlearning.rejoin import rejoin
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.subject import delete_subject
from fedsgt.unlearning.unlearn import recover, unlearn

Wish = tuple[str, tuple[str, ...] | None, tuple[int, ...] | None]
"""Client, and its records or slices; the whole client if both are None."""


@dataclass(frozen=True)
class Request:
    """A deletion in the ledger."""

    position: int
    groups: frozenset[int]
    key: bool = False


@dataclass(frozen=True)
class Look:
    """The state of a run as its public functions show it."""

    id: str
    position: int
    requests: tuple[Request, ...]
    modules: dict[str, frozenset[int]]
    """Groups of each module of the description, by key."""
    served: frozenset[str]
    """Keys of the modules in live prefixes."""
    prefixes: tuple[tuple[int, ...], ...]
    groups_of: dict[str, list[int]]
    """Group of each slice, by client."""
    hashes: dict[str, str] = field(repr=False)
    """SHA-256 of each module's file that is on disk, by key."""


def make_run(config: Config, path: Path, tell: Tell) -> None:
    train(config, path, ignore, recover)


def delete(path: Path, wishes: list[Wish], key: str | None, tell: Tell) -> dict[str, Any]:
    """Delete; tell as soon as the request is certainly in force, which is when destruction begins."""
    deletions = [Deletion(client, records=records, slices=slices) for client, records, slices in wishes]
    receipt = unlearn(open_run(path), deletions, key, lambda share: tell("in force"))
    return {"position": receipt.position, "repeated": receipt.repeated, "groups": set(receipt.groups)}


def delete_everywhere(paths: list[Path], ids: list[str], tell: Tell) -> list[str]:
    """Delete ids wherever they are; return what happened in each run."""
    return [found.state for found in delete_subject([open_run(path) for path in paths], ids)]


def settle(path: Path, tell: Tell) -> None:
    """Do what every command does first."""
    recover(open_run(path))


def retrain(path: Path, tell: Tell) -> None:
    folder = open_run(path)
    recover(folder)
    train(folder.config, path, ignore, recover)


def come_back(path: Path, client: str, source: Path, tell: Tell) -> str:
    return rejoin(open_run(path), client, source, 2, 1, ignore).name


def measure(path: Path, tell: Tell) -> None:
    evaluate(open_run(path))


def export(path: Path, sequence: int, tell: Tell) -> None:
    export_sequence(open_run(path), sequence, None, None)


def prove(path: Path, sample: int, seed: int, tell: Tell) -> dict[str, int]:
    """Verify a sample bit for bit; the rebuilding runs in this process, which is as fresh as one can be."""
    folder = open_run(path)
    recover(folder)
    return verify(folder, sample, seed, rebuild=_rebuild_here).counts


def _rebuild_here(path: Path, seed: int, check: Callable[[], None], progress: Any) -> Any:
    told: list[dict[str, Any]] = []
    read: Callable[[Path], RunFolder] = getattr(folders, "read_run", open_run)
    rebuilding.rebuild(read(path), seed, told.append)
    check()
    return not_rebuilt([one for one in told if "verdict" in one])


def page(path: Path, tell: Tell) -> None:
    write_report(open_run(path), None, None, [])


def look(path: Path, tell: Tell) -> Look:
    """Open the run and read all of its ledger, which checks the chain."""
    folder = open_run(path)
    entries = folder.ledger.entries()
    live, present = folder.live(), folder.present()
    prefixes = live.prefixes(present)
    described = live.description
    # By the bytes on disk, not by what a manifest says.
    files = {key: path / "modules" / key / "module.safetensors" for key in present}
    hashes = {
        key: hashlib.sha256(file.read_bytes()).hexdigest() for key, file in files.items() if file.is_file()
    }
    return Look(
        id=described.id,
        position=entries[-1].position,
        requests=tuple(Request(one.position, frozenset(one.body["groups"])) for one in live.requests),
        modules={entry.key: frozenset(entry.groups) for entry in described.modules},
        served=frozenset(key for prefix in prefixes for key in described.chain(prefix)),
        prefixes=tuple(prefixes),
        groups_of={
            client.name: groups for client, groups in zip(described.clients, described.groups_of, strict=True)
        },
        hashes=hashes,
    )


def is_known(path: Path, key: str, tell: Tell) -> bool:
    """Whether the ledger has a request with this key."""
    return open_run(path).ledger.find(key) is not None


def problems(path: Path, tell: Tell) -> list[tuple[str, str]]:
    """Return name and problem of all that the audit complains about."""
    return [(found.name, found.problem) for found in audit(open_run(path)) if found.problem is not None]


def certified(path: Path, tell: Tell) -> dict[int, str]:
    """Return the positions of requests without a certificate that verifies, and why."""
    folder = open_run(path)
    requests, missing = folder.live().requests, {}
    keys = public_keys(folder) if requests else []  # the key is made with the first certificate
    for request in requests:
        reasons = []
        for key in keys:
            try:
                found = read_certificate(path / "certificates" / f"{request.position:06d}.json", key)
                if found.request.ledger_hash != request.hash:
                    reasons.append("it names another entry of the ledger")
                else:
                    break
            except InputError as error:
                reasons.append(str(error))
        else:
            missing[request.position] = reasons[-1] if reasons else "there is no public key"
    return missing


def predict(path: Path, content: bytes, strategy: str, tell: Tell) -> tuple[int, frozenset[str]] | None:
    """Return the ledger's position and the keys that answered; None if the run is exhausted."""
    return ask(Predictor(path, strategy), content)


def ask(predictor: Predictor, content: bytes) -> tuple[int, frozenset[str]] | None:
    try:
        found = predictor.predict([content])
    except Exhausted:
        return None
    return found.position, frozenset(key for sequence in found.sequences for key in sequence.keys)


def command(words: list[str], tell: Tell) -> tuple[int, str]:
    """Run `fedsgt WORDS` and return its exit code and all that it printed."""
    from fedsgt import cli

    said, sys.argv = io.StringIO(), ["fedsgt", *words]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            cli.main()
            code: Any = 0
        except SystemExit as end:
            code = end.code
    return (code if isinstance(code, int) else int(code is not None)), said.getvalue()


def command_on_full_disk(words: list[str], size: int, tell: Tell) -> tuple[int, str]:
    """Run a command to which no file may grow beyond this size, as on a disk that is nearly full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return command(words, tell)


def ledger_kinds(path: Path, tell: Tell) -> list[str]:
    """Return the kinds of all entries."""
    return [str(entry.kind) for entry in open_run(path).ledger.entries()]


def kept_records(number: int, content: str) -> bytes:
    """Return the file of a client whose records were given in memory, with one record."""
    with TemporaryDirectory() as place:
        write_kept(Path(place), {number: Client.simulated("nobody", [Record("x", (content,), 0)], 1, 0)})
        return (Path(place) / "records" / f"{number}.parquet").read_bytes()


def dead_parts(path: Path, tell: Tell) -> tuple[list[str], list[str]]:
    """Return the keys of dead modules, and the fingerprints of slices that lost records."""
    live = open_run(path).live()
    return [entry.key for entry in live.dead_modules()], live.hit_slices()
