"""`fedsgt forgetting`: membership inference on deleted records, before and after their deletion."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath
from fedsgt.cli.commands.train import ready_to_train
from fedsgt.cli.views.plot_evaluation import check_plot
from fedsgt.cli.views.progress import progress
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.forgetting.measure import Attack, Case, Forgetting
    from fedsgt.forgetting.membership import Interval


def forgetting(
    run: RunPath,
    deleted: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Parquet file with deleted records that the source has no more."),
    ] = None,
    shadows: Annotated[
        int, typer.Option(metavar="K", min=4, help="Shadow models of LiRA, an even number.")
    ] = 16,
    shadow_rounds: Annotated[
        int | None, typer.Option(metavar="R", min=1, help="Rounds of each; about a sequence's without it.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="all, min, long (quick: one sequence) or merged; as configured without it."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Attack so many of the deleted records at most.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all that is drawn at random.")] = 0,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw the ROC curves (.svg, .png, .pdf).")] = None,
) -> None:
    """Can an attacker tell deleted records from unseen ones, before and after? For simulations."""
    if plot is not None:
        check_plot(plot)
    ready_to_train()
    from fedsgt.forgetting.measure import measure
    from fedsgt.runs.folder import open_run
    from fedsgt.unlearning.unlearn import recover

    folder = open_run(run)
    recover(folder)
    with _cleaned_up(), progress("Attacking") as done:
        found = measure(
            folder,
            deleted=deleted,
            shadows=shadows,
            shadow_rounds=shadow_rounds,
            strategy=strategy,
            limit=limit,
            seed=seed,
            begin=_warn,
            progress=done,
        )
    if plot is not None:
        _draw(plot, found)
    typer.echo(json.dumps({"run": str(run), **found.to_json()}, indent=1) if as_json else _table(found))
    if plot is not None and not as_json:
        typer.echo(f"\nDrawn into {plot}")


def _warn(records: int) -> None:
    typer.echo(
        f"fedsgt: AN EXPERIMENT FOR SIMULATIONS: this trains on {counted(records, 'deleted record')} again, "
        "to attack the system as it was. What comes of them lies in a temporary folder that is removed at "
        "the end; nothing is written to the run. Do not use it where a deletion was promised to anybody.",
        err=True,
    )


@contextmanager
def _cleaned_up() -> Iterator[None]:
    """Who ends the process in the usual ways ends it in order, so that the temporary folder goes too."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda which, _: sys.exit(128 + which)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _table(found: Forgetting) -> str:
    """A line for each attack and system, then in words what this means."""
    lines = [
        f"{counted(found.deleted, 'deleted record')} at hand; strategy {found.strategy}; "
        f"{found.shadows} shadow models of {counted(found.shadow_rounds, 'round')}; {found.seconds:.0f} s",
        "",
        f"{'attack':<16} deleted  unseen  system     AUC  {'95 % interval':<18}TPR at FPR",
    ]
    for name, attack in found.attacks.items():
        lines += _rows(name, attack)
    return "\n".join([*lines, "", *_remarks(found)])


def _rows(name: str, attack: Attack) -> list[str]:
    counts = "".join(f"{len(scores):>8}" for scores in attack.before.scores)
    rows = [f"{name:<16}{counts}  {'before':<8}{_shown(attack.before.auc)}{_rates(attack.before)}"]
    if attack.after is not None and attack.drop is not None:
        rows.append(f"{'':<34}{'after':<8}{_shown(attack.after.auc)}{_rates(attack.after)}")
        rows.append(f"{'':<34}{'drop':<8}{_shown(attack.drop)}".rstrip())
    return rows


def _shown(number: Interval) -> str:
    method = "" if number.method == "DeLong" else f" ({number.method})"
    between = f"{number.low:.3f} to {number.high:.3f}{method}"
    return f"{number.value:>6.3f}  {between:<18}"


def _rates(case: Case) -> str:
    known = [f"{rate:.0%} at {at}" for at, rate in case.true_positives.items() if rate is not None]
    return ", ".join(known) or "too few records"


def _remarks(found: Forgetting) -> list[str]:
    """Each system's verdict, and what else the reader must know."""
    remarks = []
    for name, attack in found.attacks.items():
        remarks.append(f"{name}, before: {_verdict_before(attack.before.auc)}")
        if attack.after is not None:
            remarks.append(f"{name}, after: {_verdict_after(attack.after.auc)}")
    if found.not_served is not None:
        remarks.append(f"after: {found.not_served}")
    if not found.as_it_was:
        remarks.append("before: the same plan with the deleted records at hand, not the very modules of then")
    if found.duplicates:
        remarks.append(
            f"{counted(found.duplicates, 'deleted record')} not attacked: retained records have that content"
        )
    return [*remarks, "no attack proves that anything was forgotten; fedsgt verify does, bit for bit"]


def _verdict_before(auc: Interval) -> str:
    if auc.low > 0.5:
        return "the attack recognises records that were learnt"
    if auc.high < 0.5:
        return "below 0.5: the unseen records are easier, whatever was learnt"
    return "the interval contains 0.5: it recognises nothing even of what was learnt, so after says little"


def _verdict_after(auc: Interval) -> str:
    if auc.contains(0.5):
        return "the interval contains 0.5: no better than guessing"
    side = "above" if auc.low > 0.5 else "below"
    return (
        f"the interval is {side} 0.5: chance (1 in 20), or deleted and unseen records are unlike; "
        "see docs/forgetting.md"
    )


def _draw(path: Path, found: Forgetting) -> None:
    """The ROC curves: a colour an attack, before full and after dashed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from fedsgt.forgetting.membership import roc

    figure, axes = pyplot.subplots(figsize=(4.6, 4.4), layout="constrained")
    axes.plot([0, 1], [0, 1], color="lightgray", linewidth=1)
    for (name, attack), color in zip(found.attacks.items(), ("tab:blue", "tab:orange"), strict=True):
        for system, case, style in (("before", attack.before, "-"), ("after", attack.after, "--")):
            if case is not None:
                label = f"{name}, {system}: {case.auc.value:.2f}"
                axes.plot(*roc(*case.scores), color=color, linestyle=style, label=label)
    axes.set_xlabel("unseen records taken for deleted ones")
    axes.set_ylabel("deleted records found")
    axes.set_aspect("equal")
    axes.legend(title="AUC", loc="lower right", fontsize="small")
    figure.savefig(path)
    pyplot.close(figure)
