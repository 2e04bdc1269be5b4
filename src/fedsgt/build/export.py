"""A sequence's live modules as one stock PEFT adapter."""

from __future__ import annotations

from pathlib import Path

from fedsgt.build.run import RunFolder
from fedsgt.errors import InputError
from fedsgt.stack.backbone import load_backbone
from fedsgt.stack.peft_format import export_module
from fedsgt.stack.stack import Stack


def export_sequence(folder: RunFolder, sequence: int, depth: int | None, output: Path | None) -> Path:
    """Write the first `depth` modules of a sequence (all that are live, if not given)."""
    chain = _live_chain(folder, sequence)
    if not chain:
        raise InputError(f"{folder.path}: sequence {sequence} has no live module to export")
    if depth is not None and not 1 <= depth <= len(chain):
        raise InputError(f"depth: {depth} is not between 1 and the {len(chain)} live modules of the sequence")
    chosen = chain[:depth]
    target = output or folder.path / "export" / f"sequence-{sequence}-{len(chosen)}"
    model = folder.config.model
    backbone = load_backbone(model.backbone, model.task, folder.description.labels)
    folder.check_backbone(backbone.hash)
    stack = Stack(backbone, folder.config.peft)
    export_module(stack, [folder.modules.get(key) for key in chosen], target, model.backbone)
    return target


def _live_chain(folder: RunFolder, sequence: int) -> list[str]:
    orders = folder.description.sequences
    if not 0 <= sequence < len(orders):
        raise InputError(f"sequence: {sequence} is not between 0 and {len(orders) - 1}")
    chain: list[str] = []
    for key in folder.description.chain(tuple(orders[sequence])):
        if folder.modules.state(key) != "present":
            break
        chain.append(key)
    return chain
