"""The page of counts that ends an attack, and the same for programs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attacks.campaigns import Plan, Result

SHOWN = 12  # broken promises on the page; the file has all
LINES = 8  # of the history of each


def page(plan: Plan, results: list[Result]) -> str:
    """Return counts by campaign and what was broken, on about one page."""
    lines = [f"attacks, seed {plan.seed}"]
    for result in results:
        lines += ["", f"{result.name}: {result.cases} cases, {result.seconds:.0f} s"]
        lines += [f"  not done: {reason}" for reason in result.skipped]
        shown = [(name, count) for name, count in sorted(result.counts.items()) if count]
        lines += [f"  {count:7,}  {name}" for name, count in shown]
        lines.append(f"  {len(result.broken):7,}  BROKEN" if result.broken else f"  {0:7,}  broken")
    broken = [one for result in results for one in result.broken]
    # The same promise breaks again and again: each is told once, with the number of cases.
    kinds = Counter(one.what.partition(":")[0] for one in broken)
    for kind, count in kinds.most_common(SHOWN):
        first = next(one for one in broken if one.what.partition(":")[0] == kind)
        lines += ["", f"BROKEN ({count} times): {first.what}", f"  again with: {first.repeat}"]
        lines += [f"    {line}" for step in first.history[-LINES:] for line in step.strip().splitlines()[-3:]]
    if len(kinds) > SHOWN:
        lines += ["", f"and {len(kinds) - SHOWN} kinds more; --json has all"]
    if not broken:
        lines += ["", "no promise was broken"]
    return "\n".join(lines)


def as_json(plan: Plan, results: list[Result]) -> str:
    """Return everything as JSON."""
    told = [
        {
            "campaign": result.name,
            "cases": result.cases,
            "seconds": round(result.seconds, 1),
            "skipped": result.skipped,
            "counts": dict(sorted(result.counts.items())),
            "broken": [asdict(one) | {"repeat": one.repeat} for one in result.broken],
        }
        for result in results
    ]
    return json.dumps({"format": 1, "seed": plan.seed, "campaigns": told}, indent=1) + "\n"
