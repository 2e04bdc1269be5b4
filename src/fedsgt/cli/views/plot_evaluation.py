"""The curves of `fedsgt evaluate --plot`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.serving.evaluation import Evaluation

DRAWN = (".svg", ".png", ".pdf")


def check_plot(path: Path) -> None:
    """Said before the work, not after it."""
    if path.suffix not in DRAWN:
        raise InputError(f"plot: {str(path)!r} ends in none of {', '.join(DRAWN)}")
    if not path.parent.is_dir():
        raise InputError(f"plot: the folder {path.parent} does not exist")


def draw(path: Path, found: Evaluation) -> None:
    """Accuracy against the number of live modules: a line a sequence, the strategies across."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for curve in found.sequences:
        axes.plot(
            range(1, len(curve) + 1),
            [cell.accuracy for cell in curve],
            color="tab:gray",
            alpha=0.6,
            marker=".",
        )
    axes.plot([], [], color="tab:gray", marker=".", label="one sequence")
    styles = {
        "all": ("AllSeq", "-", "tab:blue"),
        "min": ("MinSeq", "--", "tab:orange"),
        "long": ("LongSeq", ":", "tab:green"),
        "merged": ("merged", "-.", "tab:purple"),
    }
    for strategy, cell in found.strategies.items():
        name, style, color = styles[strategy]
        axes.axhline(cell.accuracy, color=color, linestyle=style, label=f"{name} {cell.accuracy:.1%}")
    axes.set_xlabel("modules of the sequence")
    axes.set_ylabel(f"accuracy on {found.records} test records")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.legend()
    figure.savefig(path)
    pyplot.close(figure)
