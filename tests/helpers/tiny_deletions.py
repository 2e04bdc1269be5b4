"""Trained runs to delete from: trained once, copied for each test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tiny_world import World, trained

from fedsgt.build.prepare import prepare
from fedsgt.proof.audit import Finding, audit
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.stack.stack import HEAD
from fedsgt.store.manifest import Origin


def own_state(run: Path) -> Path:
    """Return a place for the high-water mark of one copy of a run."""
    return run.with_name(f"{run.name}.state")


def copied(source: Path, target: Path) -> RunFolder:
    """Copy a run, as if it had been trained in the target, on a machine that has never seen it before."""
    shutil.copytree(source, target)
    os.environ["FEDSGT_STATE"] = str(own_state(target))  # set back by the fixture of each test
    return open_run(target)


def trained_run(world: World, path: Path, overrides: Sequence[str] = ()) -> Path:
    trained(path, world.config(*overrides))
    return path


def problems(folder: RunFolder) -> list[Finding]:
    return [finding for finding in audit(folder) if finding.problem is not None]


def prefixes(folder: RunFolder) -> list[tuple[int, ...]]:
    return folder.live().prefixes(folder.present())


def bytes_of(path: Path) -> dict[str, bytes]:
    """Return all files of a run but the locks and the database's own."""
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and "lock" not in file.name and not file.name.startswith("ledger.sqlite")
    }


def record_in(world: World, folder: RunFolder, group: int, client: str | None = None) -> tuple[str, str]:
    """Return a client, and the id of a record of it that is in this group."""
    row = world.inside(prepare(folder.config, folder.description), group, client)[0]
    return row.client, row.id


def train_otherwise(folder: RunFolder, key: str) -> None:
    """Give a module other bytes under its key, as a training without some client does."""
    manifest, tensors = folder.modules.manifest(key), folder.modules.get(key)
    shifted = {name: value if name.startswith(HEAD) else value + 0.25 for name, value in tensors.items()}
    origin = {name: getattr(manifest, name) for name in Origin.model_fields}
    folder.modules.put(Origin(**origin), {name: value.astype("float32") for name, value in shifted.items()})
