"""Numbers of the results that the tables, plots and claims of this experiment use."""

from __future__ import annotations

from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import Mean, mean_of


def average(results: Results, *path: str | int) -> Mean:
    return mean_of(results.values(str(path[0]), *path[1:]))


def gap(results: Results, *path: str) -> Mean:
    """Return the excess of the simulated rate over the predicted one, as a share of that, over seeds."""
    simulated, formula = (
        results.values(path[0], *path[1:], kind, "rate") for kind in ("simulated", "theory")
    )
    return mean_of([one / other - 1 for one, other in zip(simulated, formula, strict=True)])


def foretold(results: Results, *path: str) -> Mean:
    """Return a closed form: one number, unless it depends on the seed's grouping."""
    return mean_of(results.values(path[0], *path[1:], "theory", "rate"))


def of_clients(settings: Settings) -> list[str]:
    return [*(f"S={slices}" for slices in settings["client_slices"]), "fedcio"]


def words(name: str) -> str:
    kind, budget = name.split("-")
    more = {"rotations": "", "spread": " evenly spread", "first": " first", "iterative": " iterative"}[kind]
    return f"B={budget}{more}"


def in_figure(settings: Settings) -> list[str]:
    """Return the budgets of the paper's figure: the largest below L, L, and those above."""
    above = [f"iterative-{budget}" for budget in settings["more"]]
    return [f"spread-{max(settings['fewer'])}", f"rotations-{settings['groups']}", *above]
