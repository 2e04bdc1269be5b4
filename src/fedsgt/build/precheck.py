"""All that can be said against a training before torch is imported, in about a second and at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Set
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from fedsgt.config import Config
from fedsgt.config.load import WrongSettings
from fedsgt.data.sources.erasure import check_can_erase
from fedsgt.data.sources.headings import source_problems
from fedsgt.engine.trackers import check_trackers
from fedsgt.errors import InputError, told_by
from fedsgt.files.optional import check_flower
from fedsgt.ledger.database import check_address
from fedsgt.runs.folder import anchored, check_config
from fedsgt.runs.kept_records import kept_in, located
from fedsgt.runs.records import columns_of
from fedsgt.stack.checkpoint_files import backbone_problems
from fedsgt.store import open_objects

# One of these is there wherever torch may find a GPU: NVIDIA's, AMD's, and that of Windows under Linux.
GPUS = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")


def precheck(config: Config, path: Path) -> None:
    """Raise one error that tells all mistakes of a training into this folder; nothing is changed.

    Headers are read, no records: what is wrong with a single record is found when all are loaded.
    """
    found = list(_problems(config, path))
    if found:
        raise InputError.of("", list(dict.fromkeys(found)))


@contextmanager
def all_at_once() -> Iterator[None]:
    """Add to mistakes in settings what is wrong with the data and the model that the right ones name."""
    try:
        yield
    except WrongSettings as error:
        if error.rest is None:
            raise
        raise error.with_more(_problems(error.rest, None, error.wrong)) from None


def _problems(config: Config, path: Path | None, wrong: Set[str] = frozenset()) -> Iterator[str]:
    """Yield what is wrong, without what depends on sections that hold mistakes already."""
    if find_spec("torch") is None:
        yield "training needs torch and transformers: pip install 'fedsgt[train]'"
    if wrong.isdisjoint({"engine", "store", "unlearning"}):
        yield from requirement_problems(config)
    try:
        whole = anchored(config) if path is None else located(anchored(config), path)
    except InputError as error:  # a run of data.erased that is none
        yield str(error)
        whole = config
    if wrong.isdisjoint({"data", "model", "engine"}):
        remote = config.data.partition == "remote"
        yield from _remote_problems(config) if remote else _source_problems(whole)
    if wrong.isdisjoint({"model", "peft"}):
        yield from backbone_problems(whole.model, whole.peft)
        yield from _device_problems(config.model.device)
    if path is not None:
        yield from _folder_problems(whole, path)


def requirement_problems(config: Config) -> Iterator[str]:
    """Yield what the engine, the trackers, the ledger and the store need and do not have."""
    for tracker in config.engine.trackers:
        yield from told_by(partial(check_trackers, [tracker]))
    if config.engine.name != "in-process":
        yield from told_by(check_flower)
    if config.unlearning.ledger is not None:
        yield from told_by(partial(check_address, config.unlearning.ledger))
    url = config.store.url
    if url is not None and url.startswith("memory:") and config.engine.workers:
        yield "store.url: memory is not shared with worker processes; set engine.workers = 0"
    elif url is not None:
        yield from told_by(partial(open_objects, url))


def erasure_problems(config: Config) -> Iterator[str]:
    """Yield why a new run cannot rewrite its source, if it is to; runs that were made so keep the setting."""
    data = config.data
    if data.erase == "rewrite" and data.partition != "remote":
        yield from told_by(partial(check_can_erase, data.source, data.id_column))


def _source_problems(config: Config) -> Iterator[str]:
    """Yield what is wrong with the source, unless its records are in the run's own folder."""
    data = config.data
    if kept_in(config) is not None:
        return
    try:
        yield from source_problems(
            data.source,
            columns_of(config),
            test=data.test,
            test_share=data.test_share,
            labels=data.labels,
            label_names=data.label_names,
        )
    except InputError as error:  # columns that cannot be
        yield str(error)


def _remote_problems(config: Config) -> Iterator[str]:
    if config.engine.name != "flower":
        yield "data.partition is remote: the clients are reached with --engine flower only"
    if config.engine.server is None:
        yield "engine.server: not given; with data.partition remote it is the folder of fedsgt server"


def _device_problems(device: str) -> Iterator[str]:
    if device.startswith("cuda") and sys.platform == "linux" and not any(map(os.path.exists, GPUS)):
        yield f"model.device: {device!r} is not on this machine, which has no GPU; give cpu or auto"


def _folder_problems(config: Config, path: Path) -> Iterator[str]:
    """Yield why the run can neither be made nor continued in this folder."""
    try:
        if check_config(path, config) is not None:
            return
    except (InputError, OSError) as error:
        yield str(error)
        return
    yield from erasure_problems(config)
    above = next(folder for folder in (path, *path.absolute().parents) if os.path.lexists(folder))
    if not above.is_dir():
        yield f"{path}: the run's folder cannot be made ({above} is no folder)"
    elif not os.access(above, os.W_OK | os.X_OK):
        yield f"{path}: the run's folder cannot be made (no right to write into {above})"
