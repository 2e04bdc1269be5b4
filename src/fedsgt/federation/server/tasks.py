"""Training, statistics and verification by the server's Flower app, for the command that asked for it."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from fedsgt.config import Config, to_toml
from fedsgt.engine.events import Listener, StatisticsMade, from_json
from fedsgt.errors import InputError
from fedsgt.federation.server.submit import FlowerRun, submit
from fedsgt.federation.settings import ServerSettings, server_of
from fedsgt.proof.rebuild_process import NotRebuilt, Progress, not_rebuilt
from fedsgt.runs.folder import RunFolder, anchored, open_run

LOOK_SECONDS = 0.2  # between two looks into the progress file
ASK_SECONDS = 5.0  # between two questions whether the app still runs
ProgressLine: TypeAlias = dict[str, Any]


def train_remotely(run: Config, path: Path, tell: Listener) -> RunFolder:
    """Train a run by the app at the run's server, where the clients are connected; return its folder."""
    settings = server_of(run)
    if path.absolute().parent.resolve() != settings.runs.resolve():
        raise InputError(
            f"{path}: the desk, where clients file deletions, finds runs in {settings.runs} only; "
            f"give -o {settings.runs / path.name}"
        )
    with _folder() as place:
        config = place / "run.toml"
        config.write_text(to_toml(anchored(run)), encoding="utf-8")
        given = {"task": "train", "config": str(config), "output": str(path.absolute())}
        for line in progress_of(settings, place, given):
            tell(from_json(line))
    return open_run(path)


def renew_remotely(run: Config, path: Path, tell: Listener) -> int:
    """Let the clients make the statistics that are missing, and return how many were made."""
    settings, made = server_of(run), 0
    with _folder() as place:
        for line in progress_of(settings, place, {"task": "heads", "output": str(path.absolute())}):
            event = from_json(line)
            made = event.made if isinstance(event, StatisticsMade) else made
            tell(event)
    return made


def rebuild_remotely(run: Config) -> Callable[[Path, int, Callable[[], None], Progress], NotRebuilt]:
    """Return a function that rebuilds modules for `verify`, on the clients' machines with their records."""
    settings = server_of(run)

    def rebuild(path: Path, seed: int, check: Callable[[], None], progress: Progress) -> NotRebuilt:
        said: list[Mapping[str, Any]] = []
        given: dict[str, str | int] = {"task": "rebuild", "output": str(path), "seed": seed}
        for line in progress_of(settings, path, given):
            check()
            said.append(line)
            progress(line.get("share", 0.0))
        check()
        return not_rebuilt(said)

    return rebuild


def progress_of(
    settings: ServerSettings, place: Path, given: Mapping[str, str | int]
) -> Iterator[ProgressLine]:
    """Yield the app's progress lines until it is done; stop it if the caller does not read on."""
    # Each run of the app has a file of its own, because one that was stopped may still write a line.
    progress = place / f"progress-{secrets.token_hex(4)}.jsonl"
    progress.touch()
    told = {"server": str(settings.folder), "progress": str(progress), **given}
    submitted = submit(settings, told)
    done = False
    try:
        for line in _lines(progress, submitted):
            if line["event"] == "error":
                raise InputError(str(line["message"]))
            if line["event"] == "done":
                done = True
                return
            yield line
    finally:
        # After Ctrl-C or an error here, the app would otherwise train on at the server.
        if not done:
            submitted.stop()


def _lines(progress: Path, submitted: FlowerRun) -> Iterator[ProgressLine]:
    """Yield whole lines as they come; raise if the app ends without saying that it is done."""
    asked = time.monotonic()
    with progress.open("rb") as file:
        rest = b""
        while True:
            rest += file.read()
            # The last line may be half written; it waits for its end.
            whole, _, rest = rest.rpartition(b"\n")
            for line in whole.splitlines():
                yield json.loads(line)
            if not whole and time.monotonic() - asked > ASK_SECONDS:
                _check_running(submitted, progress, file.tell())
                asked = time.monotonic()
            time.sleep(0 if whole else LOOK_SECONDS)


def _check_running(submitted: FlowerRun, progress: Path, read: int) -> None:
    status = submitted.status()
    if status in ("pending", "starting", "running") or progress.stat().st_size > read:
        return
    last = next(iter(reversed(submitted.log_tail())), "it left no word") if status != "unknown" else ""
    raise InputError(
        f"the app at the server ended ({status}{': ' + last if last else ''}); "
        "the same command goes on after the last finished round"
    )


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fedsgt-train-") as name:
        yield Path(name)
