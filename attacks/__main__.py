"""`python -m attacks [NAME...]`: attack runs and print one page of counts; exit code 1 if a promise broke."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from attacks.campaigns import NAMES, Plan, attack
from attacks.page import as_json, page


def main(words: list[str] | None = None) -> None:
    """Run the campaigns; progress goes to standard error, the page to standard output."""
    asked = _asked(words)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # so that the folder is removed
    plan = Plan(asked.seed, asked.kills, asked.minutes, tuple(asked.names or NAMES), asked.jobs, asked.keep)
    results = attack(plan, lambda line: print(line, file=sys.stderr, flush=True))
    print(page(plan, results))
    if asked.json is not None:
        asked.json.write_text(as_json(plan, results), encoding="utf-8")
    sys.exit(1 if any(result.broken for result in results) else 0)


def _asked(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m attacks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(NAMES)}; all without it; or one case alone, as in kills/sqlite/3",
    )
    parser.add_argument("--seed", type=int, default=0, help="draws everything; default 0")
    parser.add_argument("--kills", type=int, default=320, help="number of kills; default 320")
    parser.add_argument("--minutes", type=float, default=10.0, help="begin no case after this; default 10")
    parser.add_argument("--jobs", type=int, default=2, help="cases at the same time; default 2")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write counts and broken promises there too"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work in this folder and leave it")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
