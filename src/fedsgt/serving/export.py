"""Export of a sequence's live modules as one stock PEFT adapter."""

from __future__ import annotations

import json
from pathlib import Path

from fedsgt.errors import InputError
from fedsgt.runs.artefacts import EXPORT_NOTE, EXPORTS
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import module_health
from fedsgt.serving.model import open_model_of
from fedsgt.stack.peft_export import export_module
from fedsgt.words import counted


def export_sequence(folder: RunFolder, sequence: int, depth: int | None, output: Path | None) -> Path:
    """Write the first `depth` modules of a sequence, by default all that are live, and return the folder."""
    if output is None:
        folder.check_writable()
    begun = folder.live().last_request
    chain = _live_chain(folder, sequence)
    if not chain:
        raise InputError(
            f"{folder.path}: sequence {sequence} has no live module to export; fedsgt status shows which have"
        )
    if depth is not None and not 1 <= depth <= len(chain):
        raise InputError(
            f"depth: {depth} is not allowed; the sequence has {counted(len(chain), 'live module')}"
        )
    chosen = chain[:depth]
    target = output or folder.path / EXPORTS / f"sequence-{sequence}-{len(chosen)}"
    # The model is loaded before the lock is taken, since that takes seconds and deletions must not wait.
    stack, base = open_model_of(folder).stack, folder.config.model.backbone
    # Under the lock, so that a deletion finds the export either whole, and destroys it, or not begun.
    with folder.publishing() as live:
        if live.last_request != begun:
            raise InputError(
                f"{folder.path}: a deletion came in meanwhile; nothing was exported, export again"
            )
        folder.sweep_exports()
        # The note tells a later deletion which modules are in the export.
        notes = {EXPORT_NOTE: json.dumps({"modules": chosen}) + "\n"}
        export_module(stack, [folder.modules.get(key) for key in chosen], target, base, notes)
    return target


def _live_chain(folder: RunFolder, sequence: int) -> list[str]:
    live = folder.live()
    orders = live.description.sequences
    if not 0 <= sequence < len(orders):
        raise InputError(f"sequence: {sequence} is not between 0 and {len(orders) - 1}")
    return list(live.description.chain(module_health(folder, live).prefixes[sequence]))
