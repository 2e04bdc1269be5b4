"""Results of several cells that are compared, for the seeds that all of them have."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.harness.results import Results


def common(results: Results, names: Iterable[str]) -> Results | None:
    """Return these cells with the seeds that all have; None if they have no seed in common."""
    cells = {name: results.cells.get(name, {}) for name in names}
    seeds = set.intersection(*map(set, cells.values()))
    if not seeds:
        return None
    chosen = {name: {seed: found[seed] for seed in sorted(seeds)} for name, found in cells.items()}
    return Results(results.folder, chosen)
