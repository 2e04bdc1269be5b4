"""The process that trains modules and makes statistics again: `python -m fedsgt.proof.rebuild FOLDER SEED`.

It knows only the folder, trains in an order of its own, and prints its progress as lines of JSON. If the
process that started it ends, it removes the folder, which holds records, and ends too.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsgt.build.build import Build
from fedsgt.build.client_access import LOCAL, ClientAccess
from fedsgt.build.prepare import Prepared, prepare_again
from fedsgt.build.statistics import statistic_task
from fedsgt.build.targets import Recipe, Target
from fedsgt.engine.tally import share_of
from fedsgt.engine.task import StatisticTask
from fedsgt.errors import InputError
from fedsgt.files.optional import end_fast
from fedsgt.proof.rebuild_folder import Notes, read_notes, read_retained
from fedsgt.runs.artefacts import BARE
from fedsgt.runs.description import Description
from fedsgt.runs.folder import RunFolder, read_run
from fedsgt.runs.statistics import StatisticName, write_statistic
from fedsgt.runs.work import held_work

Tell = Callable[[dict[str, Any]], None]


def rebuild(folder: RunFolder, seed: int, tell: Tell, access: ClientAccess = LOCAL) -> None:
    """Train the folder's modules and make its statistics, into it; tell a verdict for those that are not.

    Modules and chains are told by their groups; the bare backbone has none.
    """
    notes = read_notes(folder)
    remote = folder.config.data.partition == "remote"
    known = folder.description
    data = access.load_clients(folder.config, known, notes.erased) if remote else read_retained(folder)
    prepared = prepare_again(folder.config, data, known, known.plan_made())
    judged = _judged(known, prepared)
    for groups, (verdict, reason) in judged.items():
        tell({"groups": groups, "verdict": verdict, "reason": reason})
    wanted = known.keys.keys() - judged.keys()
    targets = [target for target in prepared.targets if target.groups in wanted]
    tasks = _statistic_tasks(notes, known, prepared, judged)
    if not targets and not tasks:
        return
    _reseed_global_generators(seed)
    training, rng = prepared.run.training, random.Random(seed)
    records = prepared.work(targets) * training.rounds
    # A statistic is one forward pass, which takes about a third of the time of training on the same records.
    passed = sum(sum(prepared.clients[name.client].slice_sizes()) for name in tasks.values()) / 3
    trained = records / max(records + passed, 1)
    different = prepared.different_records(targets)
    listener = share_of(records, lambda share: tell({"share": share * trained}), different)
    with access.engine(folder, prepared, listener) as engine:
        if targets:
            build = Build(prepared.recipe, folder.modules, engine, training.rounds, training.seed)
            build.took_part = notes.took_part
            build.run(targets, _order(targets, rng))
        # In an order of their own too: no statistic may depend on those made before it.
        shuffled = rng.sample(list(tasks), len(tasks))
        for done, (task, statistic) in enumerate(engine.statistics(shuffled) if tasks else (), start=1):
            write_statistic(folder, tasks[task], statistic)
            tell({"share": trained + (1 - trained) * done / len(tasks)})


def _statistic_tasks(
    notes: Notes, known: Description, prepared: Prepared, judged: Collection[tuple[int, ...]]
) -> dict[StatisticTask, StatisticName]:
    """Return a task for each statistic under a chain that is trained again, or under the bare backbone."""
    prefixes = {key: groups for groups, key in known.keys.items()} | {BARE: ()}
    return {
        statistic_task(known.chain(prefixes[name.chain]), prepared.clients[name.client]): name
        for name in notes.statistics
        if prefixes[name.chain] not in judged
    }


def _judged(known: Description, prepared: Prepared) -> dict[tuple[int, ...], tuple[str, str]]:
    """Return verdict and reason of modules that need no training to be judged, by their groups.

    Their data or settings are not what the run says, or this machine computes in another way. The bare
    backbone, which has no groups, is judged too: with it all statistics would be others.
    """
    recipe, targets = prepared.recipe, {target.groups: target for target in prepared.targets}
    # The key as the run's own machine would have computed it, with this folder's data and settings.
    claimed = Recipe(recipe.config, recipe.backbone, known.profile)
    unlike = _unlike(known.profile, dict(recipe.profile))
    found: dict[tuple[int, ...], tuple[str, str]] = {}
    if (recipe.backbone, recipe.config_hash) != (known.backbone, known.config_hash):
        found[()] = "different", _other_recipe(known, recipe)
    elif unlike:
        found[()] = "not comparable", _other_profile(unlike)
    for entry in known.modules:
        groups = tuple(entry.groups)
        target = targets[groups]
        others = [
            group
            for group, *fingerprints in zip(groups, entry.prefix, target.prefix, strict=True)
            if len({*fingerprints}) > 1
        ]
        # The most telling reason first: other data explains another key, and both make a comparison moot.
        if others:
            found[groups] = "different", _other_data(others[0])
        elif claimed.key(target.prefix) != entry.key:
            found[groups] = "different", _other_recipe(known, recipe)
        elif unlike:
            found[groups] = "not comparable", _other_profile(unlike)
    return found


def _other_profile(unlike: str) -> str:
    return f"made under another execution profile: {unlike}"


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


def _reseed_global_generators(seed: int) -> None:
    """Reseed the global generators, so that any hidden use of them changes the bytes."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)


def _order(targets: Sequence[Target], rng: random.Random) -> Callable[[Target], float]:
    """Return priorities that make a random order, never the plan's own if another is possible.

    If training one module left anything behind for the next one, the bytes would then differ.
    """
    roots = list(dict.fromkeys(target.groups[0] for target in targets))
    first = roots[0]
    rng.shuffle(roots)
    if roots[0] == first:  # move it to the end
        roots.append(roots.pop(0))
    return lambda target: roots.index(target.groups[0]) + rng.random()


def _end_with_parent(path: Path) -> None:
    """Remove the folder and end this process when the one that started it ends, however that happens."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)  # nobody writes to it, so this returns when its writer is gone
        # exec replaces this process, so that none of its threads goes on writing into the folder.
        code = "import shutil, sys; shutil.rmtree(sys.argv[1])"
        os.execv(sys.executable, [sys.executable, "-I", "-c", code, str(path)])

    threading.Thread(target=wait, daemon=True).start()


def _print_line(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> int:
    path, seed = Path(sys.argv[-2]), int(sys.argv[-1])
    _end_with_parent(path)
    try:
        with held_work(path):
            rebuild(read_run(path), seed, _print_line)
    except InputError as error:
        _print_line({"error": str(error)})
        return 2
    return 0


if __name__ == "__main__":
    code = main()
    end_fast()
    sys.exit(code)
