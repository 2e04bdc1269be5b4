"""`fedsgt verify`: train the served modules again from retained data, and compare every bit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath
from fedsgt.cli.commands.train import ready_to_train
from fedsgt.cli.views.progress import progress
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.proof.verify import Rebuild, Verification
    from fedsgt.runs.folder import RunFolder

SAME, WRONG, UNKNOWN = 0, 1, 3


def verify(
    run: RunPath,
    sample: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, help="Only so many of the modules, drawn at random, and parents."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the draw, to repeat one; a new one without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild the served modules from retained data, with deleted records absent, and compare their hashes.

    Exit code 0 if all are the same, 1 if one is not, 3 if some cannot be compared on this machine.
    """
    from fedsgt.proof.verify import verify as rebuild_and_compare
    from fedsgt.runs.folder import open_run
    from fedsgt.unlearning.unlearn import recover

    folder = open_run(run)
    finished = recover(folder)
    if finished:
        typer.echo(
            f"fedsgt: finished {counted(len(finished), 'request')} that had been interrupted", err=True
        )
    with progress("Rebuilding") as done:
        found = rebuild_and_compare(folder, sample, seed, done, rebuild=_rebuild(folder))
    typer.echo(json.dumps({"run": str(run), **found.to_json()}, indent=1) if as_json else _table(found))
    raise typer.Exit(WRONG if found.failed else SAME if found.passed else UNKNOWN)


def _rebuild(folder: RunFolder) -> Rebuild | None:
    """Where the records are: here, or with clients who train the modules again on their own machines."""
    if folder.config.data.partition != "remote":
        ready_to_train()
        return None
    from fedsgt.files.optional import check_flower

    check_flower()
    from fedsgt.federation.server.tasks import rebuild_remotely

    return rebuild_remotely(folder.config)


def _table(found: Verification) -> str:
    """A module a line, then in words what this means."""
    lines = [f"{'module':<14}{'groups':<16}verdict"]
    for module in found.modules:
        reason = "" if module.verdict == "same" else f": {module.reason}"
        groups = " ".join(map(str, module.groups))
        lines.append(f"{module.key[:12]:<14}{groups:<16}{module.verdict}{reason}")
    lines = [*lines, ""] if found.modules else []
    return "\n".join([*lines, _summary(found), *_remarks(found)])


def _summary(found: Verification) -> str:
    if not found.modules:
        return f"no module is served at ledger position {found.position}: there is nothing to verify"
    counts = ", ".join(f"{number} {verdict}" for verdict, number in found.counts.items())
    return (
        f"{counts}; of {counted(found.served, 'module')} served at ledger position {found.position}, "
        f"in {found.seconds:.0f} s"
    )


def _remarks(found: Verification) -> list[str]:
    """What else the reader must know."""
    remarks = []
    if found.sample is not None:
        remarks.append(f"a sample of {found.sample} and parents; --seed {found.seed} draws it again")
    if found.unfinished:
        places = ", ".join(map(str, found.unfinished))
        remarks.append(f"unfinished requests, at positions {places}: their bytes may still be there")
    for choice in found.data_dependent_choices:
        remarks.append(f"weaker than it looks: {choice}, and may carry traces of data deleted later")
    bad = {module.verdict for module in found.modules} - {"same", "not comparable"}
    if bad == {"damaged"}:
        remarks.append("FAILED: damaged modules, which are not served; fedsgt retrain makes them again")
    elif found.failed:
        remarks.append("FAILED: something is there, or was, that the retained data does not account for")
    elif not found.passed:
        remarks.append("UNDECIDED: verify on a machine like the one that trained")
    elif found.modules:
        remarks.append("passed: every module looked at is, bit for bit, what the retained data gives")
    return remarks
