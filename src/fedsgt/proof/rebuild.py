"""A process of its own that trains modules again: `python -m fedsgt.proof.rebuild FOLDER SEED`.

It knows the folder and nothing else of the run, works in an order of its own, and tells how far it is in
lines of JSON. It ends with the process that started it, and then takes the folder, which holds data, with it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsgt.build.build import Build
from fedsgt.build.client_access import LOCAL, ClientAccess
from fedsgt.build.prepare import Prepared, prepare_again
from fedsgt.build.targets import Recipe, Target
from fedsgt.engine.tally import share_of
from fedsgt.errors import InputError
from fedsgt.proof.rebuild_folder import read_notes, read_retained
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder, open_run

Tell = Callable[[dict[str, Any]], None]


def rebuild(folder: RunFolder, seed: int, tell: Tell, access: ClientAccess = LOCAL) -> None:
    """Train the folder's modules into it, but for those that its data and settings cannot have given."""
    took_part, erased = read_notes(folder)
    remote = folder.config.data.partition == "remote"
    known = folder.description
    data = access.load_clients(folder.config, known, erased) if remote else read_retained(folder)
    prepared = prepare_again(folder.config, data, known, known.plan_made())
    refused = _refused(known, prepared)
    for groups, (verdict, reason) in refused.items():
        tell({"groups": groups, "verdict": verdict, "reason": reason})
    targets = [target for target in prepared.targets if target.groups not in refused]
    if not targets:
        return
    _stir(seed)
    training = prepared.run.training
    records = sum(prepared.records(target) for target in targets) * training.rounds
    listener = share_of(records, lambda share: tell({"share": share}))
    with access.engine(folder, prepared, listener) as engine:
        build = Build(prepared.recipe, folder.modules, engine, training.rounds, training.seed)
        build.took_part = took_part
        build.run(targets, _order(targets, random.Random(seed)))


def _refused(known: Description, prepared: Prepared) -> dict[tuple[int, ...], tuple[str, str]]:
    """Modules that need not be trained to know what comes of it, by their groups: verdict and reason."""
    recipe, targets = prepared.recipe, {target.groups: target for target in prepared.targets}
    claimed = Recipe(recipe.config, recipe.backbone, known.profile)
    unlike = _unlike(known.profile, dict(recipe.profile))
    found = {}
    for entry in known.modules:
        groups = tuple(entry.groups)
        target = targets[groups]
        others = [
            group
            for group, *marks in zip(groups, entry.prefix, target.prefix, strict=True)
            if len({*marks}) > 1
        ]
        if others:
            found[groups] = "different", _other_data(others[0])
        elif claimed.key(target.prefix) != entry.key:
            found[groups] = "different", _other_recipe(known, recipe)
        elif unlike:
            found[groups] = "not comparable", f"made under another execution profile: {unlike}"
    return found


def _other_data(group: int) -> str:
    return f"the retained data of group {group} is not what the module says it was trained on"


def _other_recipe(known: Description, recipe: Recipe) -> str:
    if recipe.backbone != known.backbone:
        return "the backbone's weights are not those that the run says it was trained on; see model.backbone"
    if recipe.config_hash != known.config_hash:
        return "the run's settings are not those that it says it was trained with"
    return "its key is not that of its data and settings"


def _unlike(ours: dict[str, str], theirs: dict[str, str]) -> str:
    names = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    return ", ".join(f"{name} {ours.get(name)} against {theirs.get(name)}" for name in names)


def _stir(seed: int) -> None:
    """Whoever draws from a generator that all share gets other numbers than in training."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)


def _order(targets: Sequence[Target], rng: random.Random) -> Callable[[Target], float]:
    """A random order, and never the plan's own if another is possible.

    What one module's training leaves behind for the next one then shows in the bytes.
    """
    roots = list(dict.fromkeys(target.groups[0] for target in targets))
    first = roots[0]
    rng.shuffle(roots)
    if roots[0] == first:
        roots.append(roots.pop(0))
    return lambda target: roots.index(target.groups[0]) + rng.random()


def _end_with_parent(path: Path) -> None:
    """Standard input is never written to, and ends when its writer does, however that comes about."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)
        # In the place of this process, so that none of its threads goes on writing into the folder.
        code = "import shutil, sys; shutil.rmtree(sys.argv[1])"
        os.execv(sys.executable, [sys.executable, "-I", "-c", code, str(path)])

    threading.Thread(target=wait, daemon=True).start()


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> int:
    path, seed = Path(sys.argv[-2]), int(sys.argv[-1])
    _end_with_parent(path)
    try:
        rebuild(open_run(path), seed, _say)
    except InputError as error:
        _say({"error": str(error)})
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
