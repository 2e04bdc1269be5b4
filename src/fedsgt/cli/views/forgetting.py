"""Results of membership inference: the table and the picture of `fedsgt forgetting`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.forgetting.measure import Attack, AttackResult, Forgetting
    from fedsgt.forgetting.membership import Interval


def forgetting_text(found: Forgetting) -> str:
    """Return a line for each attack and system, then in words what they mean."""
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
    # DeLong's interval is the usual one; only another method needs to be named.
    method = "" if number.method == "DeLong" else f" ({number.method})"
    between = f"{number.low:.3f} to {number.high:.3f}{method}"
    return f"{number.value:>6.3f}  {between:<18}"


def _rates(result: AttackResult) -> str:
    known = [f"{rate:.0%} at {at}" for at, rate in result.true_positives.items() if rate is not None]
    return ", ".join(known) or "too few records"


def _remarks(found: Forgetting) -> list[str]:
    """Return the verdict on each system, and what else the reader must know."""
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


def draw_roc(path: Path, found: Forgetting) -> None:
    """Draw the ROC curves: a colour for each attack, full before the deletion and dashed after it."""
    import matplotlib as mpl

    mpl.use("agg")  # no window: the machine may have no screen
    from matplotlib import pyplot as plt

    from fedsgt.forgetting.membership import roc

    figure, axes = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
    # The diagonal is what guessing gives.
    axes.plot([0, 1], [0, 1], color="lightgray", linewidth=1)
    for (name, attack), color in zip(found.attacks.items(), ("tab:blue", "tab:orange"), strict=True):
        for system, result, style in (("before", attack.before, "-"), ("after", attack.after, "--")):
            if result is not None:
                label = f"{name}, {system}: {result.auc.value:.2f}"
                axes.plot(*roc(*result.scores), color=color, linestyle=style, label=label)
    axes.set_xlabel("unseen records taken for deleted ones")
    axes.set_ylabel("deleted records found")
    axes.set_aspect("equal")
    axes.legend(title="AUC", loc="lower right", fontsize="small")
    figure.savefig(path)
    plt.close(figure)
