"""Export of a sequence's live modules as one stock PEFT adapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.plans import Prefix
from fedsgt.runs.artefacts import EXPORT_NOTE, EXPORTS
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import module_health
from fedsgt.runs.state import Live
from fedsgt.serving.heads import HeadSolver, solves
from fedsgt.serving.model import open_model_of
from fedsgt.stack.peft_export import export_module, linear_head
from fedsgt.stack.stack import Stack
from fedsgt.words import counted

HeadKind: TypeAlias = Literal["statistics", "trained"]


def export_sequence(
    folder: RunFolder,
    sequence: int,
    depth: int | None,
    output: Path | None,
    heads: HeadKind | None = None,
) -> Path:
    """Write the first `depth` modules of a sequence, by default all that are live, and return the folder.

    `heads` says which head it gets, by default the one that serves. The note in the folder says which it got.
    """
    if output is None:
        folder.check_writable()
    begun = folder.live()
    prefix = _chosen(folder, begun, sequence, depth)
    target = output or folder.path / EXPORTS / f"sequence-{sequence}-{len(prefix)}"
    keys = begun.description.chain(prefix)
    # The model is loaded before the lock is taken, since that takes seconds and deletions must not wait.
    stack, base = open_model_of(folder).stack, folder.config.model.backbone
    head, note = _head(folder, begun, prefix, stack, heads)
    # Under the lock, so that a deletion finds the export either whole, and destroys it, or not begun.
    with folder.publishing() as live:
        if live.last_request != begun.last_request:
            raise InputError(
                f"{folder.path}: a deletion came in meanwhile; nothing was exported, export again"
            )
        folder.sweep_exports()
        # The note tells a later deletion what the export depends on.
        notes = {EXPORT_NOTE: json.dumps({"modules": list(keys), **note}) + "\n"}
        modules = [folder.modules.get(key) for key in keys]
        export_module(stack, [*modules[:-1], {**modules[-1], **head}], target, base, notes)
    return target


def trained_because(path: Path) -> str | None:
    """Return why an export has the trained head though solved heads serve; None if that is not so."""
    why: str | None = json.loads((path / EXPORT_NOTE).read_text(encoding="utf-8")).get("trained_because")
    return why


def _head(
    folder: RunFolder, live: Live, prefix: Prefix, stack: Stack, heads: HeadKind | None
) -> tuple[Tensors, dict[str, Any]]:
    """Return the solved head and what the note says of it; nothing in place of the trained head."""
    if heads == "trained" or (heads is None and not solves(folder.config)):
        return {}, {"heads": "trained"}
    solved = HeadSolver(folder).solve(live, [prefix]).by_chain.get(prefix)
    if not folder.config.heads.solve:
        why = "this run solves no heads (heads.solve is false)"
    elif solved is None:
        why = f"there are no statistics of this chain; fedsgt heads {folder.path} makes them"
    else:
        found = linear_head(stack, solved)
        if found is not None:
            # Any later deletion takes records out of the statistics, and destroys the export.
            return found, {"heads": "statistics", "position": live.position}
        why = (
            "a solved head reads the trunk's first token, and this model's own head is no linear layer on it"
        )
    if heads == "statistics":
        raise InputError(f"heads: statistics cannot be exported: {why}; give trained; nothing was exported")
    return {}, {"heads": "trained", "trained_because": why}


def _chosen(folder: RunFolder, live: Live, sequence: int, depth: int | None) -> Prefix:
    orders = live.description.sequences
    if not orders:
        raise InputError(
            f"{folder.path}: the plan has no modules, so there is no sequence to export; the solved head of "
            "the bare backbone is not exported, as it reads more features than the model's own head; nothing "
            "was exported"
        )
    if not 0 <= sequence < len(orders):
        raise InputError(f"sequence: {sequence} is not between 0 and {len(orders) - 1}")
    chain = module_health(folder, live).prefixes[sequence]
    if not chain:
        raise InputError(
            f"{folder.path}: sequence {sequence} has no live module to export; fedsgt status shows which have"
        )
    if depth is not None and not 1 <= depth <= len(chain):
        raise InputError(
            f"depth: {depth} is not allowed; the sequence has {counted(len(chain), 'live module')}"
        )
    return chain[:depth]
