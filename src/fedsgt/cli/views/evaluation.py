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

    depths = max(map(len, found.sequences), default=0)  # a plan may have no sequence
    test = counted(found.records, "test record")
    lines = [f"accuracy on {test}, in percent" + (", by modules of the sequence" if depths else ""), ""]
    if depths:
        lines.append("sequence  " + "".join(f"{depth:>7}" for depth in range(1, depths + 1)))
        for index, curve in enumerate(found.sequences):
            lines.append(f"{index:>8}  " + "".join(f"{100 * cell.accuracy:7.1f}" for cell in curve))
        lines.append("")
    if found.floor is None:
        lines += [_strategy_line(name, cell, served) for name, cell in found.strategies.items()]
    else:
        lines += _solved_lines(found, served)
    if found.agreement is not None:
        lines.append(f"\nmerged gives AllSeq's label to {100 * found.agreement:.1f} % of the test records")
    better = None if served is None else found.better_than(served)
    lines += ["", better.words()] if better else []
    return "\n".join([*lines, *_expected_lines(found, served)])


def _strategy_line(name: str, cell: Accuracy, served: str | None) -> str:
    from fedsgt.plans import STRATEGY_NAMES

    return f"{STRATEGY_NAMES[name]:<8} {_cell(cell)}" + (", served" if name == served else "")


def _cell(found: Accuracy) -> str:
    """Return an accuracy in percent, and its interval."""
    return f"{100 * found.accuracy:6.1f}  (95 % interval {100 * found.low:.1f} to {100 * found.high:.1f})"


def _solved_lines(found: Evaluation, served: str | None) -> list[str]:
    """Return the strategies with solved heads, with the trained ones, and the bare backbone alone."""
    from fedsgt.plans import MERGED

    assert found.floor is not None
    # The merged model has a mean of trained heads, but for a run in which no module is live.
    solved = {
        name: cell for name, cell in found.strategies.items() if name != MERGED and any(found.sequences)
    }
    trained = found.with_trained_heads()
    return [
        f"heads solved from {counted(found.solved_from, 'record')}",
        *(_strategy_line(name, cell, served) for name, cell in solved.items()),
        *(["", "trained heads of the same modules"] if trained else []),
        *(_strategy_line(name, cell, served if name == MERGED else None) for name, cell in trained.items()),
        "",
        f"bare backbone alone (ridge on its features, no module) {_cell(found.floor)}"
        + ("" if any(found.sequences) else ", served"),
        *_gain_lines(found, served),
    ]


def _gain_lines(found: Evaluation, served: str | None) -> list[str]:
    """Return a line that says so if the modules that are live do not help."""
    cell = found.strategies.get(served or "all")
    if found.floor is None or cell is None or not any(found.sequences):
        return []
    gain = 100 * (cell.accuracy - found.floor.accuracy)
    return [] if gain > 0 else [f"the live modules gain nothing over it on these records ({gain:+.1f})"]


def _expected_lines(found: Evaluation, served: str | None = None) -> list[str]:
    """Return the accuracy to expect after further requests, beside the chance that something is live.

    Where they are not those of the strategy in use, `served`, that is said.
    """
    from fedsgt.plans import STRATEGY_NAMES

    if not found.expected or found.expected_strategy is None:
        return []
    name = STRATEGY_NAMES[found.expected_strategy]
    always = all(one.alive == 1 for one in found.expected) and found.floor is not None
    what = f"accuracy of {name}" + ("" if always else " if something is live, and the chance of that")
    # The bare backbone alone is the same whatever the strategy.
    if served is not None and served != found.expected_strategy and any(found.sequences):
        heads = "with solved heads, " if found.floor is not None else ""
        what += f"; {heads}not of {STRATEGY_NAMES[served]}, which serves and has no forecast"
    alive = (
        [] if always else [f"{'alive':<10}" + "".join(f"{100 * one.alive:7.1f}" for one in found.expected)]
    )
    cells = [f"{one.requests:>7}" for one in found.expected]
    expected = [f"{'' if one.accuracy is None else f'{100 * one.accuracy:.1f}':>7}" for one in found.expected]
    return [
        "",
        f"expected after further requests, in percent: {what}",
        f"{'requests':<10}" + "".join(cells),
        f"{'accuracy':<10}" + "".join(expected),
        *alive,
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
    if found.floor is not None:
        axes.axhline(
            found.floor.accuracy,
            color="tab:red",
            linestyle=(0, (1, 4)),
            label=f"bare backbone alone {found.floor.accuracy:.1%}",
        )
    axes.set_xlabel("modules of the sequence")
    axes.set_ylabel(f"accuracy on {counted(found.records, 'test record')}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.legend()
    figure.savefig(path)
    plt.close(figure)
