"""Accuracy of a run's live modules on its test records: of every live prefix, and of every strategy.

`evaluate` computes what is missing, with torch. `rescore` scores what is live from kept probabilities alone,
after a deletion, say. Both write `evaluation.json`, which the next request destroys.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fedsgt.data import Dataset
from fedsgt.ledger.kinds import SERVING_CHANGED
from fedsgt.plans import Prefix
from fedsgt.plans.scoring.live_part import chance_alive, expected_accuracy
from fedsgt.runs.artefacts import EVALUATION
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import module_health
from fedsgt.runs.records import load_test
from fedsgt.runs.records_left import request_chances
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import chain_name
from fedsgt.serving.accuracy import (
    Accuracy,
    Evaluation,
    ExpectedAccuracy,
    choices,
    evaluation_of,
    score,
    scored_as,
)
from fedsgt.serving.answer import Floats
from fedsgt.serving.evaluator import Evaluator, Progress
from fedsgt.serving.heads import NO_HEADS, Heads, HeadSolver, solves
from fedsgt.serving.kept import Kept, file_of, kept_files, read_kept
from fedsgt.store import CorruptModule, Folder, MissingModule

__all__ = [
    "Accuracy",
    "Evaluation",
    "Evaluator",
    "current_evaluation",
    "evaluate",
    "live_modules",
    "probabilities_of_test_records",
    "rescore",
    "score",
]

REQUESTS_AHEAD = 10  # further requests for which an accuracy is expected
# Most probabilities that are mixed for the expected accuracies, a few seconds' work; large runs get fewer
# simulated streams, or no expectation.
MOST_MIXED = 2_000_000_000
MOST_NUMBERS = 50_000_000  # most probabilities that `rescore` reads: 200 MB
# Most work of solving heads that `rescore` does, in cubes of features: about a second on one core.
MOST_SOLVED = 1_500_000_000


def evaluate(folder: RunFolder, progress: Progress = lambda share: None) -> Evaluation:
    """Evaluate all live modules and write `evaluation.json`; restart if a request arrives."""
    folder.check_writable()
    test = load_test(folder.config, folder.description.labels)
    while True:
        live = folder.live()
        try:
            evaluation = _evaluate_live(folder, live, test, progress)
        except (MissingModule, CorruptModule):
            # A request that arrived since may have destroyed the module: that is no error, but a new start.
            if folder.live().position == live.position:
                raise
            continue
        if _write(folder, evaluation):
            return evaluation


def rescore(folder: RunFolder, patient: bool = False) -> Evaluation | None:
    """Score what is live from kept probabilities, and write `evaluation.json`; needs no torch.

    `merged` has no accuracy then, as its answer needs the modules. The result is that of `evaluate` else.
    None if nothing is live, if some live module was not evaluated, if a request is not completed, or if
    there is more to read, or more heads to solve, than a deletion should wait for: then `evaluate` has to be
    asked. An evaluation that is there is returned as it is. With `patient`, heads may take any time.
    """
    folder.check_writable()
    while True:
        live = folder.live()
        # By manifests only: the answer to a deletion does not wait until all modules are read.
        prefixes = module_health(folder, live, tensors=False).prefixes
        known = current_evaluation(folder, live, prefixes)
        unfinished = any(request.position not in live.finished for request in live.requests)
        chains = scored_chains(folder, prefixes)
        if known is not None or unfinished or not chains:
            return known
        found = _kept_of(folder, live, chains, math.inf if patient else MOST_SOLVED)
        evaluation = None if found is None else _scored(folder, live, prefixes, *found)
        if evaluation is None or _write(folder, evaluation):
            return evaluation


def current_evaluation(
    folder: RunFolder, live: Live, served: Sequence[Prefix] | None = None
) -> Evaluation | None:
    """Return the content of `evaluation.json`; None if modules died or were trained since it was made.

    With `served`, the prefixes that are served now, None too if modules were damaged or mended since.
    """
    changed = (entry for entry in folder.ledger.entries() if entry.kind in SERVING_CHANGED)
    # An evaluation stays true while other entries, such as a completed destruction, are added.
    last = max((entry.position for entry in changed if entry.position <= live.position), default=0)
    try:
        found = Evaluation.read((folder.path / EVALUATION).read_text(encoding="utf-8"))
        if not last <= found.position <= live.position:
            return None
        depths = [len(curve) for curve in found.sequences]
        return found if served is None or depths == list(map(len, served)) else None
    # A missing or damaged file is the same as no evaluation: the next one writes it anew.
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def live_modules(prefixes: Iterable[Prefix]) -> list[Prefix]:
    """Return the prefix of every live module, each once, given the live part of each sequence."""
    return sorted({prefix[:depth] for prefix in prefixes for depth in range(1, len(prefix) + 1)})


def scored_chains(folder: RunFolder, prefixes: Iterable[Prefix]) -> list[Prefix]:
    """Return every live module's prefix, and the empty one of the bare backbone if it may have a head."""
    return [*([()] if solves(folder.config) else []), *live_modules(prefixes)]


def _write(folder: RunFolder, evaluation: Evaluation) -> bool:
    """Write `evaluation.json`, unless the ledger has moved on since; return whether it was written."""
    # Under the lock, so that no request can come between this look and the writing.
    with folder.publishing() as now:
        if now.position == evaluation.position:
            Folder(folder.path).write(EVALUATION, evaluation.to_text().encode())
            return True
    return False


def _evaluate_live(folder: RunFolder, live: Live, test: Dataset, progress: Progress) -> Evaluation:
    # A damaged module must not count, though its manifest is there.
    prefixes = module_health(folder, live).prefixes
    with Evaluator(folder, test) as evaluator:
        found = evaluator.outputs(live, scored_chains(folder, prefixes), progress)
        merged = evaluator.merged(live, prefixes)
        return _scored(folder, live, prefixes, evaluator.file, found, test.labels, merged)


def _scored(
    folder: RunFolder,
    live: Live,
    prefixes: Sequence[Prefix],
    file: str,
    outputs: Mapping[Prefix, Kept],
    labels: Sequence[int],
    merged: Floats | None = None,
) -> Evaluation:
    strategy = scored_as(folder.config.serving.strategy)
    predicted, trained, heads = answers_of(folder, live, outputs)
    found = evaluation_of(
        live.position,
        predicted,
        prefixes,
        labels,
        merged,
        trained if heads.in_force else None,
        heads.records,
    )
    expected = _expected(live, prefixes, predicted, labels, strategy)
    damaged = list(heads.damaged(live))
    return replace(
        found, test=file, expected=expected, expected_strategy=strategy, damaged_statistics=damaged
    )


def answers_of(
    folder: RunFolder, live: Live, outputs: Mapping[Prefix, Kept]
) -> tuple[dict[Prefix, Floats], dict[Prefix, Floats], Heads]:
    """Return the probabilities under each chain with the heads in force, with trained heads, and the heads.

    The bare backbone, whose prefix is empty, is among them only if it has a solved head.
    """
    trained = {prefix: output.probabilities for prefix, output in outputs.items() if prefix}
    heads = HeadSolver(folder).solve(live, trained) if solves(folder.config) else NO_HEADS
    if not heads.in_force:
        return trained, trained, heads
    predicted: dict[Prefix, Floats] = {
        prefix: heads.probabilities(prefix, output.probabilities, output.features)
        for prefix, output in outputs.items()
    }
    return predicted, trained, heads


def _expected(
    live: Live,
    prefixes: Sequence[Prefix],
    predicted: Mapping[Prefix, Floats],
    labels: Sequence[int],
    strategy: str,
) -> list[ExpectedAccuracy]:
    """Return the accuracies to expect after further requests; empty if nothing is live or it takes long.

    Solved heads are taken to stay as they are: they lose few records with a request.
    """
    if not any(prefixes):
        floor = score(strategy, predicted, prefixes, labels)
        # The bare backbone has no group that a request could hit.
        return [] if floor is None else [_certain(count, floor) for count in range(1, REQUESTS_AHEAD + 1)]

    def accuracy(left: Sequence[Prefix]) -> float | None:
        measured = score(strategy, predicted, left, labels)
        return None if measured is None else measured.accuracy

    mixed = len(choices(strategy, predicted, prefixes)) * len(labels) * live.description.labels
    chances, counts = request_chances(live), range(1, REQUESTS_AHEAD + 1)
    found = expected_accuracy(prefixes, chances, REQUESTS_AHEAD, accuracy, MOST_MIXED // mixed)
    alive = chance_alive(prefixes, chances, counts) if found else []
    return [
        ExpectedAccuracy(count, None, 0.0, float(chance))
        if value is None
        else ExpectedAccuracy(count, float(value), value.stderr, 1.0 if () in predicted else float(chance))
        for count, value, chance in zip(counts, found, alive, strict=False)
    ]


def _certain(requests: int, found: Accuracy) -> ExpectedAccuracy:
    return ExpectedAccuracy(requests, found.accuracy, 0.0, 1.0)


def _kept_of(
    folder: RunFolder, live: Live, chains: Sequence[Prefix], most_solved: float
) -> tuple[str, dict[Prefix, Kept], Sequence[int]] | None:
    """Return name, outputs and labels of test records that were kept for all of these chains."""
    names = {prefix: chain_name(live, prefix) for prefix in chains}
    files = kept_files(folder, list(names.values()))
    test: Dataset | None = None
    if len(files) > 1:
        # The test source has changed between evaluations: what it holds now counts.
        test = load_test(folder.config, live.description.labels)
        files = [file for file in files if file == file_of(test, live.description.labels)]
    if not files:
        return None
    (file,) = files
    found, solved = dict[Prefix, Kept](), 0
    for prefix in chains:
        kept = read_kept(folder, names[prefix], file)
        if kept is None or _numbers(kept) * len(chains) > MOST_NUMBERS:
            return None
        if kept.features is None and folder.config.heads.solve:
            return None
        solved += 0 if kept.features is None else kept.features.shape[1] ** 3
        if solved > most_solved:
            return None
        found[prefix] = kept
    labels = next((kept.labels for kept in found.values() if kept.labels is not None), None)
    if labels is None:  # all files are of an older version
        test = test or load_test(folder.config, live.description.labels)
        if file_of(test, live.description.labels) != file:
            return None
        labels = test.labels
    return file, found, labels


def _numbers(kept: Kept) -> int:
    return kept.probabilities.size + (0 if kept.features is None else kept.features.size)


def probabilities_of_test_records(
    folder: RunFolder,
    live: Live,
    prefixes: Iterable[Prefix],
    progress: Progress,
    heads_at: Live | None = None,
) -> dict[Prefix, Floats]:
    """Return class probabilities of the test records under each of these live prefixes.

    They are those of the heads in force; with solved heads, the bare backbone is there as the empty prefix.

    Only what no evaluation has kept is computed. `score` then tells what a deletion would leave: pass it the
    prefixes that remain, which must be among these. With `heads_at`, heads are solved from the statistics
    that count in that state.
    """
    with Evaluator(folder, load_test(folder.config, folder.description.labels)) as evaluator:
        chains = [*([()] if solves(folder.config) else []), *prefixes]
        return answers_of(folder, heads_at or live, evaluator.outputs(live, chains, progress))[0]
