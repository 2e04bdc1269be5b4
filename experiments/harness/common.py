"""Results of several cells that are compared: of the seeds that all of them have."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.harness.results import Results


def common(results: Results, names: Iterable[str]) -> Results | None:
    """These cells with their common seeds, while others are still being measured; none if there is none."""
    cells = {name: results.cells.get(name, {}) for name in names}
    seeds = set.intersection(*map(set, cells.values()))
    if not seeds:
        return None
    chosen = {name: {seed: found[seed] for seed in sorted(seeds)} for name, found in cells.items()}
    return Results(results.folder, chosen)
