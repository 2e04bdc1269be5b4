"""Growth of the cost of grouping, plan search and scoring with their size, as one table.

Each row names the size, the time, and the ratio of its time to that of the row before, to hold against what
theory says: grouping is linear in the slices, a table of scores over subsets doubles with each group.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count as numbers_from
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from fedsgt import grouping, theory
from fedsgt.plans import Estimate, Plan, make

Skew = Callable[[int, int], NDArray[np.float64]]


@dataclass(frozen=True)
class Row:
    what: str
    size: str
    work: Callable[[], Any]
    remark: Callable[[Any], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    table = Table("what", "size", "seconds", "x before", "remark", title="Growth of the core")
    for _, rows in groupby(_rows(parser.parse_args().quick), key=lambda row: row.what):
        before = None
        for row in rows:
            seconds, result = _timed(row.work)
            table.add_row(
                row.what,
                row.size,
                f"{seconds:.3f}",
                f"{seconds / before:.1f}" if before else "",
                row.remark(result),
            )
            before = seconds
        table.add_section()
    Console(width=140).print(table)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the best time of three runs, or of one if that takes long, and the result."""
    best, result = float("inf"), None
    for _ in range(3):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
        if best > 1:
            break
    return best, result


def _rows(quick: bool) -> Iterator[Row]:
    yield from _random_rows((10_000, 100_000) if quick else (10_000, 100_000, 1_000_000))
    yield from _centering_rows((5, 10) if quick else (5, 10, 20, 40))
    yield from _search_rows((3, 4) if quick else (6, 8, 10, 12))
    yield from _scoring_rows((8, 12) if quick else (8, 12, 16, 20))


def _random_rows(sizes: tuple[int, ...]) -> Iterator[Row]:
    for limit in (None, 3):
        what = "random grouping" + (f", at most {limit} groups a client" if limit else "")
        for slices in sizes:
            work = partial(grouping.make, "random", np.full(slices // 5, 5), 100, limits=limit)
            yield Row(what, f"M={slices:,} L=100", work, partial(_memory, work, slices))


def _memory(work: Callable[[], Any], slices: int, _: Any) -> str:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return f"{peak / slices:.0f} bytes a slice at the peak"


def _centering_rows(clients: tuple[int, ...]) -> Iterator[Row]:
    for method in ("bac", "centered"):
        for skew in (by_client, by_label):
            for count in clients:
                work = partial(_centered, method, skew(count, 0))
                what = f"{method} grouping, Dirichlet(0.3) {skew.__name__.replace('_', ' ')}"
                yield Row(
                    what, f"M={count * 5} L={count}", work, partial(_against_random, method, skew, count)
                )


def _centered(method: str, seen: NDArray[np.float64]) -> grouping.Grouping:
    clients = len(seen) // 5
    return grouping.make(method, [5] * clients, clients, embeddings=seen)


def _against_random(method: str, skew: Skew, clients: int, _: Any) -> str:
    """Return the paper's objective as a share of that of random grouping, the mean over ten instances."""
    shares = []
    for seed in range(10):
        seen = skew(clients, seed)
        ours = grouping.objective(_centered(method, seen), seen)
        random = [grouping.make("random", [5] * clients, clients, seed=seed) for seed in range(10)]
        shares.append(ours / np.mean([grouping.objective(one, seen) for one in random]))
    return f"{np.mean(shares):.3f} of random's objective"


def by_client(clients: int, seed: int) -> NDArray[np.float64]:
    """Return label histograms of five slices a client, each client with a label distribution of its own."""
    rng = np.random.default_rng(seed)
    return _histograms(rng.dirichlet(np.full(10, 0.3), size=clients), rng)


def by_label(clients: int, seed: int) -> NDArray[np.float64]:
    """Return label histograms if each label is dealt to the clients, as Flower's partitioner does."""
    rng = np.random.default_rng(seed)
    return _histograms(rng.dirichlet(np.full(clients, 0.3), size=10).T, rng)


def _histograms(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    return np.array([rng.multinomial(100, share / share.sum()) for share in shares for _ in range(5)]) / 100


def _search_rows(groups: Iterable[int]) -> Iterator[Row]:
    sizes = list(groups)
    for kind in ("greedy", "tree"):
        for count in sizes:
            yield Row(f"{kind} search", f"L={count}", partial(make, kind, count), _against_rotations)


def _against_rotations(plan: Plan) -> str:
    rotations, coming = make("rotations", plan.groups), range(1, 16)
    ours, theirs = np.mean(plan.expected_live(coming)), np.mean(rotations.expected_live(coming))
    return f"{plan.passes:g} passes (rotations {rotations.passes:g}), mean live {ours:.3f} ({theirs:.3f})"


def _scoring_rows(groups: tuple[int, ...]) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for count in groups:
        closed = f" (closed form {float(theory.expected_live(count, 10)):.4f})"
        yield _scoring_row("scores at 61 requests, uniform", count, None, closed)
    for count in groups:
        yield _scoring_row("scores at 61 requests, any prior", count, rng.dirichlet(np.ones(count)), "")


def _scoring_row(what: str, groups: int, prior: NDArray[np.float64] | None, closed: str) -> Row:
    sequences = make("rotations", groups).sequences
    names = (f"timed-{number}" for number in numbers_from())

    def work() -> list[Estimate]:
        # Scores are cached by plan, so each timing takes a plan of another name.
        plan = Plan.of(next(names), groups, sequences)
        plan.survival(range(61), prior)
        plan.deletion_rate(prior)
        return plan.expected_live(range(61), prior)

    return Row(what, f"L={groups}", work, lambda live: f"{live[10]:.4f} live after 10{closed}")


if __name__ == "__main__":
    main()
