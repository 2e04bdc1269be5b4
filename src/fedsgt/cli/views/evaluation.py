"""Accuracies of a run: the table and the picture of `fedsgt evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.serving.accuracy import Accuracy, Evaluation

# Line and colour of each strategy.
LINES = {
    "all": ("-", "tab:blue"),
    "min": ("--", "tab:orange"),
    "long": (":", "tab:green"),
    "merged": ("-.", "tab:purple"),
}


def accuracy_words(found: Accuracy, strategy: str, records: int) -> str:
    """Return interval, strategy and number of test records of an accuracy."""
    from fedsgt.plans import STRATEGY_NAMES

    return (
        f"95 % interval {100 * found.low:.1f} to {100 * found.high:.1f}; {STRATEGY_NAMES[strategy]}, "
        f"{counted(records, 'test record')}"
    )


def evaluation_text(found: Evaluation, served: str | None = None) -> str:
    """Return sequences down and live modules across, the strategies with their intervals, and what to expect.

    With `served`, the strategy in use, also whether another is clearly better.
    """
    from fedsgt.plans import STRATEGY_NAMES

    depths = max(map(len, found.sequences))
    test = counted(found.records, "test record")
    lines = [f"accuracy on {test}, in percent, by modules of the sequence", ""]
    lines.append("sequence  " + "".join(f"{depth:>7}" for depth in range(1, depths + 1)))
    for index, curve in enumerate(found.sequences):
        lines.append(f"{index:>8}  " + "".join(f"{100 * cell.accuracy:7.1f}" for cell in curve))
    lines.append("")
    for strategy, cell in found.strategies.items():
        lines.append(
            f"{STRATEGY_NAMES[strategy]:<8} {100 * cell.accuracy:6.1f}  "
            f"(95 % interval {100 * cell.low:.1f} to {100 * cell.high:.1f})"
            + (", served" if strategy == served else "")
        )
    if found.agreement is not None:
        lines.append(f"\nmerged gives AllSeq's label to {100 * found.agreement:.1f} % of the test records")
    better = None if served is None else found.better_than(served)
    lines += ["", better.words()] if better else []
    return "\n".join([*lines, *_expected_lines(found)])


def _expected_lines(found: Evaluation) -> list[str]:
    """Return the accuracy to expect after further requests, beside the chance that something is live."""
    from fedsgt.plans import STRATEGY_NAMES

    if not found.expected or found.expected_strategy is None:
        return []
    name = STRATEGY_NAMES[found.expected_strategy]
    cells = [f"{one.requests:>7}" for one in found.expected]
    expected = [f"{'' if one.accuracy is None else f'{100 * one.accuracy:.1f}':>7}" for one in found.expected]
    return [
        "",
        f"expected after further requests, in percent: accuracy of {name} if something is live, and the "
        "chance of that",
        f"{'requests':<10}" + "".join(cells),
        f"{'accuracy':<10}" + "".join(expected),
        f"{'alive':<10}" + "".join(f"{100 * one.alive:7.1f}" for one in found.expected),
    ]


def draw_evaluation(path: Path, found: Evaluation) -> None:
    """Draw accuracy over the number of live modules: a line for each sequence, the strategies across."""
    import matplotlib as mpl

    mpl.use("agg")  # no window: the machine may have no screen
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    from fedsgt.plans import STRATEGY_NAMES

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for curve in found.sequences:
        accuracies = [cell.accuracy for cell in curve]
        axes.plot(range(1, len(curve) + 1), accuracies, ".-", color="tab:gray", alpha=0.6)
    axes.plot([], [], ".-", color="tab:gray", label="one sequence")  # one entry in the key for all of them
    for strategy, cell in found.strategies.items():
        name, (style, color) = STRATEGY_NAMES[strategy], LINES[strategy]
        axes.axhline(cell.accuracy, color=color, linestyle=style, label=f"{name} {cell.accuracy:.1%}")
    axes.set_xlabel("modules of the sequence")
    axes.set_ylabel(f"accuracy on {counted(found.records, 'test record')}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.legend()
    figure.savefig(path)
    plt.close(figure)
