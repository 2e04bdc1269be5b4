"""Accuracies of a run: the table and the picture of `fedsgt evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.serving.evaluation import Evaluation

# Name, line and colour of each strategy.
STRATEGIES = {
    "all": ("AllSeq", "-", "tab:blue"),
    "min": ("MinSeq", "--", "tab:orange"),
    "long": ("LongSeq", ":", "tab:green"),
    "merged": ("merged", "-.", "tab:purple"),
}


def evaluation_text(found: Evaluation) -> str:
    """Return sequences down and live modules across, then the strategies with their intervals."""
    depths = max(map(len, found.sequences))
    test = counted(found.records, "test record")
    lines = [f"accuracy on {test}, in percent, by modules of the sequence", ""]
    lines.append("sequence  " + "".join(f"{depth:>7}" for depth in range(1, depths + 1)))
    for index, curve in enumerate(found.sequences):
        lines.append(f"{index:>8}  " + "".join(f"{100 * cell.accuracy:7.1f}" for cell in curve))
    lines.append("")
    for strategy, cell in found.strategies.items():
        lines.append(
            f"{STRATEGIES[strategy][0]:<8} {100 * cell.accuracy:6.1f}  "
            f"(95 % interval {100 * cell.low:.1f} to {100 * cell.high:.1f})"
        )
    if found.agreement is not None:
        lines.append(f"\nmerged gives AllSeq's label to {100 * found.agreement:.1f} % of the test records")
    return "\n".join(lines)


def draw_evaluation(path: Path, found: Evaluation) -> None:
    """Draw accuracy over the number of live modules: a line for each sequence, the strategies across."""
    import matplotlib as mpl

    mpl.use("agg")  # no window: the machine may have no screen
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for curve in found.sequences:
        accuracies = [cell.accuracy for cell in curve]
        axes.plot(range(1, len(curve) + 1), accuracies, ".-", color="tab:gray", alpha=0.6)
    axes.plot([], [], ".-", color="tab:gray", label="one sequence")  # one entry in the key for all of them
    for strategy, cell in found.strategies.items():
        name, style, color = STRATEGIES[strategy]
        axes.axhline(cell.accuracy, color=color, linestyle=style, label=f"{name} {cell.accuracy:.1%}")
    axes.set_xlabel("modules of the sequence")
    axes.set_ylabel(f"accuracy on {counted(found.records, 'test record')}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.legend()
    figure.savefig(path)
    plt.close(figure)
