"""`python -m experiments NAME...`: measure what is missing, then draw plots and write tables."""

from __future__ import annotations

import argparse
import os
import sys
from fnmatch import fnmatch
from pathlib import Path

from experiments.harness.pages import write_index, write_report
from experiments.harness.places import placed
from experiments.harness.pool import cells_of, missing, run_jobs
from experiments.harness.results import Results
from experiments.harness.settings import HERE, NAMES, Settings, load_settings, task_file
from fedsgt.config import load
from fedsgt.errors import InputError
from fedsgt.files.locks import only_holder

WORK = HERE / ".work"


def main(words: list[str] | None = None) -> None:
    """Run the command; an error is one line on standard error."""
    asked = _asked(words)
    try:
        run(asked)
    except InputError as error:
        sys.exit(f"experiments: {error}")
    except KeyboardInterrupt:
        sys.exit("experiments: stopped; the same command goes on with what is missing")


def run(asked: argparse.Namespace) -> None:
    """Measure all missing seeds of all cells of the experiments; each result is kept at once."""
    chosen = [load_settings(name, asked.quick, asked.task) for name in asked.names or NAMES]
    # Tiny results, and those of other tasks than the experiment's own, do not go among the committed ones.
    apart = WORK / ("quick" if asked.quick else "other") if asked.quick or asked.task else HERE
    home = asked.output or apart
    outcomes = {settings.name: Results.read(home / settings.name / "results") for settings in chosen}
    if not asked.only_pages:
        _measure(chosen, outcomes, WORK if home == HERE else home, asked)
    for settings in chosen:
        _write(settings, outcomes[settings.name], home)
    write_index(home)


def _measure(
    chosen: list[Settings], outcomes: dict[str, Results], work: Path, asked: argparse.Namespace
) -> None:
    for task in dict.fromkeys(task for settings in chosen for task in settings.tasks):
        # Data and weights that are missing are reported before anything is measured.
        placed(load(task_file(task)))
    work.mkdir(parents=True, exist_ok=True)
    with only_holder(work / "lock", work):
        todo = [job for settings in chosen for job in missing(settings, outcomes[settings.name])]
        todo = [job for job in todo if fnmatch(job.cell.name, asked.cells)]
        run_jobs(todo, outcomes, work, asked.jobs)


def _write(settings: Settings, results: Results, home: Path) -> None:
    shown = results.only(cells_of(settings), settings.seeds)
    if shown.cells:
        print(write_report(settings, shown, home / settings.name))


def _asked(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all without it")
    parser.add_argument("--quick", action="store_true", help="all of it tiny, in minutes, on digits")
    parser.add_argument(
        "--task", action="append", default=[], metavar="TASK", help="a task of experiments/tasks instead"
    )
    parser.add_argument(
        "--cells",
        default="*",
        metavar="PATTERN",
        help="measure only results of such names, as in 'sst2-iid-*'",
    )
    parser.add_argument("--jobs", type=_count, default=os.cpu_count() or 1, help="processes, one thread each")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where results go instead")
    parser.add_argument("--only-pages", action="store_true", help="measure nothing, write the pages anew")
    return parser.parse_args(words)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes; give 1 or more")
    return int(text)


if __name__ == "__main__":
    main()
