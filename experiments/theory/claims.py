"""Claims of the analysis, held against the simulated streams."""

from __future__ import annotations

from experiments.harness.report import Claim, verdict
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import Mean, difference, mean_of
from experiments.harness.verdicts import exactly, together
from experiments.theory import simulation
from experiments.theory.reading import foretold, gap, in_figure, of_clients, words
from fedsgt.plans import rotations

CLOSE_GROUPS = 0.1  # of live groups: one percent of the data
CLOSE_RATE = 0.03  # of the deletion rate, as a share of it
CLOSE_ROUNDS = 0.3
REQUESTS = range(1, 31)


def rate_claims(settings: Settings, results: Results, base: str) -> list[Claim]:
    name = f"rotations-{settings['groups']}"
    ours = results.values(base, name, "simulated", "rate")
    theirs = results.values("fedcio", "fedcio", "simulated", "rate")
    claims = [
        Claim(
            "Deletion rate of FedSGT is L·H_min(L,B) (counting the request that fails)",
            "29.29 at L=B=10",
            f"{mean_of(ours).text(1, 2)} simulated",
            together([gap(results, base, plan) for plan in simulation.plans(settings)], equal=CLOSE_RATE),
        ),
        Claim(
            "Deletion rate of FedCIO is c·H_c",
            "11.42 at c=5",
            f"{mean_of(theirs).text(1, 2)} simulated",
            verdict(gap(results, "fedcio", "fedcio"), equal=CLOSE_RATE),
        ),
        Claim(
            "FedSGT serves over 2.5 times as many requests (within one slice) as FedCIO",
            "29.29 / 11.42 = 2.56",
            f"{mean_of([one / other for one, other in zip(ours, theirs, strict=True)]).text(1, 2)} times",
            verdict(difference(ours, [2.5 * rate for rate in theirs])),
        ),
    ]
    if results.cells.get("clients"):
        claims += _client_claims(settings, results)
    if results.cells.get("skewed"):
        uniform = foretold(results, base, name).value
        skewed = difference(
            results.values("skewed", "simulated", "rate"), [uniform] * len(results.values("skewed"))
        )
        claims.append(
            Claim(
                "The exact form for uneven requests foretells them (ours)",
                "uniform requests only",
                f"simulated above foretold by {gap(results, 'skewed').text()} %; "
                f"the uniform form is short by {skewed.text(1, 2)} requests",
                verdict(gap(results, "skewed"), equal=CLOSE_RATE),
            )
        )
    return claims


def _client_claims(settings: Settings, results: Results) -> list[Claim]:
    names = of_clients(settings)
    rates = {name: results.values("clients", name, "rate") for name in names}
    above = [
        mean_of([rate / form - 1 for rate, form in zip(rates[name], forms, strict=True)])
        for name in names
        for forms in [results.values("clients", name, "theory")]
    ]
    claims = [
        Claim(
            "The exact form for whole clients foretells them (ours)",
            "no such requests",
            ", ".join(f"{name} {mean_of(rates[name]).text(1, 2)}" for name in names),
            together(above, equal=CLOSE_RATE),
        )
    ]
    for slices in settings["slices"]:
        ours = rates[f"S={slices}"]
        claims.append(
            Claim(
                f"FedSGT with S={slices} outlives FedCIO also when whole clients leave (ours)",
                "2.5 times, for requests within one slice",
                f"{mean_of(ours).text(1, 2)} against {mean_of(rates['fedcio']).text(1, 2)}",
                verdict(difference(ours, rates["fedcio"])),
            )
        )
    return claims


def live_claims(settings: Settings, results: Results, base: str) -> list[Claim]:
    name = f"rotations-{settings['groups']}"
    below = [plan for plan in simulation.plans(settings) if plan.split("-")[0] in ("spread", "first")]
    return [
        Claim(
            "E[R] at B=L as the paper prints it",
            "closed form",
            f"simulated minus form {_live_gap(results, base, name).text(1, 3)} groups over 1..30 requests",
            verdict(_live_gap(results, base, name), equal=CLOSE_GROUPS),
        ),
        Claim(
            "E[R] at B<L has an exact form, too (ours)",
            '"difficult"',
            ", ".join(f"{words(plan)} {_live_gap(results, base, plan).text(1, 3)} groups" for plan in below),
            together([_live_gap(results, base, plan) for plan in below], equal=CLOSE_GROUPS),
        ),
        *(_above_fedcio(settings, results, base, plan) for plan in in_figure(settings)),
        _more_than_groups(settings, results, base),
        _quantiles(settings, results, base),
    ]


def _live_gap(results: Results, cell: str, plan: str) -> Mean:
    simulated, formula = (results.values(cell, plan, kind, "live") for kind in ("simulated", "theory"))
    return mean_of(
        [
            sum(one[number] - other[number] for number in REQUESTS) / len(REQUESTS)
            for one, other in zip(simulated, formula, strict=True)
        ]
    )


def _above_fedcio(settings: Settings, results: Results, base: str, plan: str) -> Claim:
    ours = results.values(base, plan, "theory", "live")[0]
    theirs = results.values("fedcio", "fedcio", "theory", "live")[0]
    scale = settings["groups"] / settings["clusters"]
    lost = [number for number in REQUESTS if ours[number] <= scale * theirs[number]]
    where = f"above at all but {', '.join(map(str, lost))}" if lost else "above at all"
    return Claim(
        f"{words(plan)}: more live data than FedCIO (sum over its models) at nearly all requests",
        "above FedCIO across nearly all requests (a picture)",
        f"{where} of 1..30 requests, by closed form",
        exactly(len(lost) <= 3),
    )


def _more_than_groups(settings: Settings, results: Results, base: str) -> Claim:
    base_live = results.values(base, f"rotations-{settings['groups']}", "theory", "live")[0]
    groups, budget = settings["groups"], max(settings["more"])
    most = results.values(base, f"iterative-{budget}", "theory", "live")[0]
    once, repeated = (rotations(groups, count).expected_live(REQUESTS) for count in (groups, budget))
    share = sum(most[number] for number in REQUESTS) / sum(base_live[number] for number in REQUESTS) - 1
    return Claim(
        "E[R] of rotations is larger for B>L than for B=L",
        "stated, as B>L includes the sequences of B=L",
        "rotations repeat after L: the same modules, the same E[R]. Iterative rotations at "
        f"B={budget}: {100 * share:.1f} % more over 1..30 requests",
        exactly(repeated != once),
    )


def _quantiles(settings: Settings, results: Results, base: str) -> Claim:
    """Return the claim about the requests at which the chance of service passes 0.9 and one half."""
    groups = settings["groups"]
    exact = rotations(groups).survival(range(settings["shown"]))
    low = next(number for number, share in enumerate(exact) if share < 0.9)
    half = next(number for number, share in enumerate(exact) if share <= 0.5)
    alive = results.values(base, f"rotations-{groups}", "simulated", "alive")
    gaps = [mean_of([curve[number] - exact[number] for curve in alive]) for number in (low, half)]
    return Claim(
        f"P(served) falls below 0.9 at request {low}, the median failing request is {half} (ours)",
        "mean only",
        f"by exact form; simulated there {gaps[0].text(1, 3)} and {gaps[1].text(1, 3)} off",
        together(gaps, equal=0.02),
    )


def round_claims(settings: Settings, results: Results) -> list[Claim]:
    claims = []
    for form, shown in (
        ("independent", "the paper's form, slices independent"),
        ("balanced", "balanced groups (ours)"),
    ):
        gaps = {
            slices: difference(
                results.values("rounds", f"S={slices}", "rounds"),
                results.values("rounds", f"S={slices}", f"rounds_{form}"),
            )
            for slices in settings["slices"]
        }
        claims.append(
            Claim(
                f"Rounds per client: {shown}",
                "71.5 at S=2 (87.92 at S=5 by its form)" if form == "independent" else "-",
                ", ".join(
                    f"S={slices}: simulated minus form {mean.text(1, 2)}" for slices, mean in gaps.items()
                ),
                together(list(gaps.values()), equal=CLOSE_ROUNDS),
            )
        )
    return claims
