"""Advice on retraining: what a person should do with a run, and how soon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedsgt.reporting.forecast import FARTHEST, SAFE
from fedsgt.serving.accuracy import Accuracy, Evaluation
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.reporting.heads import HeadsStatus

Urgency = Literal["now", "soon", "none"]
"""When to act: at once, before some further request, or not at all."""
FALL = 0.05  # a fall of accuracy by more than this is worth acting on
NEAR_GUESSING = 0.05  # an accuracy whose interval begins within this of guessing is hardly better


@dataclass(frozen=True)
class Advice:
    """One sentence of advice, and how soon it is to be followed."""

    urgency: Urgency
    words: str


def poor_accuracy(served: Accuracy | None, labels: int) -> str | None:
    """Return in words that what is served is hardly better than guessing; None if it is, or is not known."""
    guess = 1 / labels
    if served is None or labels < 2 or served.low > guess + NEAR_GUESSING:
        return None
    # With few test records every interval is wide: a high end far from guessing says nothing bad.
    if served.high >= (1 + guess) / 2:
        return None
    return f"accuracy is {served.accuracy:.1%} ({labels} labels; guessing gives {guess:.1%})"


def expected_fall(found: Evaluation | None) -> str | None:
    """Return in words how far accuracy is expected to fall with the next request; None if not far."""
    ahead = None if found is None else found.expected_after(1)
    if found is None or found.expected_strategy is None or ahead is None or ahead.accuracy is None:
        return None
    now = found.strategies[found.expected_strategy].accuracy
    if now - ahead.accuracy <= FALL:
        return None
    return f"accuracy is expected to fall from {now:.1%} to {ahead.accuracy:.1%} with it, if anything is live"


def advise_on_accuracy(found: Evaluation | None, strategy: str, labels: int, whole: bool) -> Advice | None:
    """Return advice for the sake of accuracy; None if it is not known or good enough.

    `whole` says that every module is live, so that there is nothing to retrain.
    """
    poor = poor_accuracy(None if found is None else found.strategies.get(strategy), labels)
    if poor is not None:
        if whole:
            return Advice("now", f"Every module is live, but {poor}: train longer, or another model.")
        return Advice("now", f"Retrain now: {poor}.")
    fall = None if whole else expected_fall(found)
    return None if fall is None else Advice("soon", f"Retrain before the next request: {fall}.")


def advise_without_modules(heads: HeadsStatus | None, left: bool) -> Advice:
    """Return advice for a run without a live module; `left` says whether a record is left."""
    if not left:
        return Advice("now", "No record is left to learn from, so nothing can be served.")
    if heads is None:
        return Advice("now", "Retrain now: nothing is live, so nothing can be served.")
    if not heads.in_force:
        return Advice(
            "now",
            f"Run fedsgt heads now: nothing can be served until it has made the {heads.lost}, or retrain.",
        )
    return Advice(
        "soon",
        f"Retrain to bring modules back: the bare backbone answers alone, with a head of "
        f"{counted(heads.records, 'record')}, as long as a record is left.",
    )


def advise_on_heads(heads: HeadsStatus, unfinished: bool = False) -> Advice:
    """Return advice for a run that lacks statistics; `unfinished` says that its training was stopped."""
    if unfinished:
        return Advice("soon", f"Run fedsgt train: it goes on with the training, and makes the {heads.lost}.")
    return Advice(
        "soon", f"Run fedsgt heads: it makes the {heads.lost}, without which heads know fewer records."
    )


def advise_without_a_plan(heads: HeadsStatus | None, left: bool) -> Advice:
    """Return advice for a run whose plan has no modules; `left` says whether a record is left."""
    if not left:
        return Advice("now", "No record is left to learn from, so nothing can be served.")
    if heads is None:
        return Advice("now", "Nothing can be served: the plan has no modules, and no head is solved.")
    if not heads.in_force:
        return Advice(
            "now", f"Run fedsgt heads now: nothing can be served until it has made the {heads.lost}."
        )
    if heads.lost:
        return advise_on_heads(heads)
    return Advice("none", "Nothing is to be trained: something answers as long as a record is left.")


def advise_on_survival(unsafe_at: int | None, whole: bool, solved: bool = False) -> Advice:
    """Return advice for the sake of being able to serve.

    `unsafe_at` is the first number of further requests after which that is not safe, if there is one. With
    `solved` heads something answers as long as a record is left.
    """
    if solved:
        when = "something answers as long as a record is left"
    elif unsafe_at is None:
        when = f"the chance of still serving stays at {SAFE:.0%} or more for {FARTHEST} further requests"
    else:
        further = "the next request" if unsafe_at == 1 else f"{unsafe_at} further requests"
        when = f"the chance of still serving is below {SAFE:.0%} after {further}"
    if whole:
        return Advice("none", f"Nothing to retrain: every module is live; {when}.")
    if unsafe_at is None:
        return Advice("none", f"No need to retrain for being able to serve: {when}.")
    before = "the next request" if unsafe_at == 1 else f"request {unsafe_at} from now"
    return Advice("soon", f"Retrain before {before}: {when}.")
