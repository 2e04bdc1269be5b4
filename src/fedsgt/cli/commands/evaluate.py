"""`fedsgt evaluate`: accuracy of every sequence prefix and of every way of selecting sequences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import AsJson, RunPath
from fedsgt.cli.commands.train import ready_to_train
from fedsgt.cli.views.progress import progress
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.serving.evaluation import Evaluation

STRATEGY_NAMES = {"all": "AllSeq", "min": "MinSeq", "long": "LongSeq"}


def evaluate(
    run: RunPath,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw the curves (.svg, .png, .pdf).")] = None,
) -> None:
    """Test every live module of a run: accuracy by sequence and depth, and of each way of selecting."""
    evaluate_run(run, as_json, plot)


def evaluate_run(run: Path, as_json: bool = False, plot: Path | None = None) -> None:
    ready_to_train()
    from fedsgt.cli.views.plot_evaluation import check_plot, draw
    from fedsgt.runs.folder import open_run
    from fedsgt.serving.evaluation import evaluate as score_run

    if plot is not None:
        check_plot(plot)
    with progress("Evaluating") as done:
        found = score_run(open_run(run), done)
    if not found.strategies:
        raise InputError(f"{run}: no module is live; fedsgt train or retrain makes some")
    if plot is not None:
        draw(plot, found)
    typer.echo(found.to_text().rstrip() if as_json else _table(found))
    if plot is not None and not as_json:
        typer.echo(f"\nDrawn into {plot}")


def _table(found: Evaluation) -> str:
    """Sequences down, live modules across, then the strategies with their intervals."""
    depths = max(map(len, found.sequences))
    lines = [f"accuracy on {found.records} test records, in percent, by modules of the sequence", ""]
    lines.append("sequence  " + "".join(f"{depth:>7}" for depth in range(1, depths + 1)))
    for index, curve in enumerate(found.sequences):
        lines.append(f"{index:>8}  " + "".join(f"{100 * cell.accuracy:7.1f}" for cell in curve))
    lines.append("")
    for strategy, cell in found.strategies.items():
        name = STRATEGY_NAMES.get(strategy, strategy)
        lines.append(
            f"{name:<8} {100 * cell.accuracy:6.1f}  "
            f"(95 % interval {100 * cell.low:.1f} to {100 * cell.high:.1f})"
        )
    if found.agreement is not None:
        lines.append(f"\nmerged gives AllSeq's label to {100 * found.agreement:.1f} % of them")
    return "\n".join(lines)
