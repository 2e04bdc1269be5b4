"""Tables, claims and the picture of what training costs."""

from __future__ import annotations

from pathlib import Path

from experiments.harness.plots import COLOURS, bars, figure
from experiments.harness.report import Claim, Table, verdict
from experiments.harness.results import Results
from experiments.harness.settings import Settings
from experiments.harness.statistics import Mean, difference, mean_of
from experiments.harness.verdicts import exactly
from fedsgt import theory

SYSTEMS = {"fedavg": "FedAvg", "fedcio": "FedCIO", "fedsgt": "FedSGT"}
HOURS = {"cifar10": (68.42, 30.53, 41.31), "sst2": (53.40, 20.30, 46.20)}  # the paper's Table 3
ALIKE = 2.0  # what we take "comparable", "the same order" to be at most: a factor
FORETOLD = 0.2  # how near to the passes a ratio of times must be, as a share
ROUNDS = 10  # of FedAvg and FedCIO


def cell(task: str, records: int) -> str:
    return f"{task.replace('/', '-')}-{records}"


def seconds(settings: Settings, results: Results, task: str, system: str, size: int = 0) -> list[float]:
    found: list[float] = results.values(cell(task, settings["records"][size]), system, "seconds")
    return found


def ratio(settings: Settings, results: Results, task: str, system: str, base: str = "fedavg") -> list[float]:
    ours, theirs = (seconds(settings, results, task, name) for name in (system, base))
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def counted(settings: Settings, results: Results, task: str, system: str) -> float:
    """Passes over the data."""
    return float(results.values(cell(task, settings["records"][0]), system, "passes")[0])


def tables(settings: Settings, results: Results, tasks: list[str]) -> list[Table]:
    found = []
    if tasks:
        found += [_times(settings, results, tasks), _growth(settings, results, tasks)]
    found.append(_budgets(settings, results, tasks))
    if results.cells.get("traffic"):
        found.append(_traffic(settings, results, tasks))
    return found


def _times(settings: Settings, results: Results, tasks: list[str]) -> Table:
    rows = []
    for task in tasks:
        hours = HOURS.get(task)
        for index, system in enumerate(SYSTEMS):
            spent = mean_of(seconds(settings, results, task, system))
            each = f" ({spent.value / _sequences(settings, results, task):.1f})" if system == "fedsgt" else ""
            rows.append(
                [
                    task,
                    SYSTEMS[system],
                    f"{spent.text(1)}{each}",
                    f"{counted(settings, results, task, system):g}",
                    mean_of(ratio(settings, results, task, system)).text(1, 2),
                    f"{counted(settings, results, task, system) / counted(settings, results, task, 'fedavg'):.2f}",
                    f"{hours[index]:.2f} h" if hours else "-",
                    f"{hours[index] / hours[0]:.2f}" if hours else "-",
                ]
            )
    return Table(
        f"CPU seconds of training {settings['records'][0]} records from nothing (in parentheses: a sequence)",
        (
            "task",
            "system",
            "CPU s",
            "passes",
            "over FedAvg",
            "passes over FedAvg's",
            "the paper",
            "over FedAvg there",
        ),
        rows,
    )


def _sequences(settings: Settings, results: Results, task: str) -> int:
    return int(results.values(cell(task, settings["records"][0]), "fedsgt", "sequences")[0])


def _growth(settings: Settings, results: Results, tasks: list[str]) -> Table:
    rows = []
    for task in tasks:
        for system in settings["grown"]:
            row = [task, SYSTEMS[system]]
            for size in range(len(settings["records"])):
                found = seconds(settings, results, task, system, size)
                row.append(mean_of(found).text(1) if found else "-")
            growth = _grown(settings, results, task, system)
            rows.append([*row, growth.text(1, 2) if growth.count else "-"])
    sizes = [f"{records} records" for records in settings["records"]]
    return Table("CPU seconds by number of records", ("task", "system", *sizes, "ratio"), rows)


def _grown(settings: Settings, results: Results, task: str, system: str) -> Mean:
    """Time with the most records over time with the fewest, for the seeds that have both."""
    large, small = (
        dict(results.seeds(cell(task, settings["records"][size])))
        for size in (0, len(settings["records"]) - 1)
    )
    seeds = sorted(large.keys() & small.keys())
    return mean_of([large[seed][system]["seconds"] / small[seed][system]["seconds"] for seed in seeds])


def matched(settings: Settings, results: Results, task: str) -> list[float]:
    """So many sequences take as long as FedAvg."""
    count = _sequences(settings, results, task)
    return [count / factor for factor in ratio(settings, results, task, "fedsgt")]


def _budgets(settings: Settings, results: Results, tasks: list[str]) -> Table:
    groups = settings["groups"]
    rows = [
        ["the paper's text", "36"],
        [
            "its formula, 2TL/(L+1), which charges FedAvg for L modules",
            f"{float(theory.matched_budget(ROUNDS, groups)):.2f}",
        ],
        [
            "equal passes over the data, 2T/(L+1)",
            f"{float(theory.matched_budget_passes(ROUNDS, groups)):.2f}",
        ],
        *([f"measured, {task}", mean_of(matched(settings, results, task)).text(1, 2)] for task in tasks),
    ]
    return Table("Sequences that cost as much as FedAvg's ten rounds (L = 10)", ("by", "B"), rows)


def _traffic(settings: Settings, results: Results, tasks: list[str]) -> Table:
    size = max((_bytes(settings, results, task) for task in tasks), default=0)
    rows = []
    for slices in settings["slices"]:
        entries = results.values("traffic", f"S={slices}")
        rounds = mean_of([entry["rounds"] for entry in entries])
        fetched = mean_of([entry["fetched"] for entry in entries])
        extremes = f"{min(entry['least'] for entry in entries)} to {max(entry['most'] for entry in entries)}"
        forms = _forms(settings, slices)
        rows.append(
            [
                f"FedSGT, S={slices}",
                f"{rounds.text(1, 2)} ({extremes})",
                f"{forms['paper']:.2f}",
                f"{forms['balanced']:.2f}",
                f"{rounds.value:.1f} up, {fetched.value:.1f} down",
                _mega((rounds.value + fetched.value) * size),
            ]
        )
    for name, count in (("FedAvg", ROUNDS), ("FedCIO", ROUNDS + 1)):
        printed = f"{count}" if name == "FedAvg" else f"{ROUNDS + 2}"
        rows.append([name, str(count), printed, "-", f"{count} up, {count} down", _mega(2 * count * size)])
    return Table(
        "Rounds of a client (least to most), modules that it sends and fetches, bytes (largest task above)",
        ("system", "rounds", "the paper's form", "balanced form", "modules", "both ways"),
        rows,
    )


def _bytes(settings: Settings, results: Results, task: str) -> int:
    return int(results.values(cell(task, settings["records"][0]), "fedsgt", "module_bytes")[0])


def _mega(count: float) -> str:
    return f"{count / 1e6:.2f} MB" if count else "-"


def _forms(settings: Settings, slices: int) -> dict[str, float]:
    clients, groups = settings["clients"], settings["groups"]
    return {
        "paper": float(theory.client_rounds_independent(groups, slices)),
        "balanced": float(theory.client_rounds_balanced(clients, slices, groups)),
    }


def claims(settings: Settings, results: Results, tasks: list[str]) -> list[Claim]:
    found = [claim for task in tasks for claim in _time_claims(settings, results, task)]
    if results.cells.get("traffic"):
        found += _traffic_claims(settings, results)
    return found


def _time_claims(settings: Settings, results: Results, task: str) -> list[Claim]:
    ours, clusters = (ratio(settings, results, task, system) for system in ("fedsgt", "fedcio"))
    passes = {system: counted(settings, results, task, system) for system in SYSTEMS}
    expected = passes["fedsgt"] / passes["fedavg"]
    hours = HOURS.get(task)
    said = f"{hours[2] / hours[0]:.2f} of FedAvg's hours" if hours else "0.6 to 1.0 of FedAvg's hours"
    off = mean_of([factor / expected - 1 for factor in ours])
    growth = _grown(settings, results, task, "fedsgt")
    sizes = settings["records"][0] / settings["records"][-1]
    return [
        Claim(
            f"{task}: FedSGT's training time is comparable to FedAvg's (at most twice)",
            said,
            f"{mean_of(ours).text(1, 2)} times FedAvg's CPU time; passes {expected:.2f}",
            verdict(difference([ALIKE] * len(ours), ours)),
        ),
        Claim(
            f"{task}: time goes with passes over the data (ratio to FedAvg within 20 % of theirs)",
            "deviations laid to its simulation environment",
            f"{off.text()} % off",
            verdict(off, equal=FORETOLD),
        ),
        Claim(
            f"{task}: FedCIO's compute matches FedAvg's (within 20 %)",
            "by formula; its table has 0.38 to 0.84 of FedAvg's hours",
            f"{mean_of(clusters).text(1, 2)} times",
            verdict(mean_of([factor - 1 for factor in clusters]), equal=FORETOLD),
        ),
        Claim(
            f"{task}: a budget of 18.18 (the formula), or 36 (the text), costs as much as FedAvg",
            "B = 36, so that B = 10 costs less",
            f"B = {mean_of(matched(settings, results, task)).text(1, 2)}",
            verdict(mean_of([budget - 18.18 for budget in matched(settings, results, task)]), equal=3.6),
        ),
        Claim(
            f"{task}: time is linear in the number of records (within 20 %)",
            "by formula",
            f"{growth.text(1, 2)} times for {sizes:g} times the records" if growth.count else "-",
            verdict(
                mean_of([growth.value / sizes - 1]) if growth.count < 2 else _relative(growth, sizes),
                equal=FORETOLD,
            ),
        ),
    ]


def _relative(mean: Mean, expected: float) -> Mean:
    return Mean(mean.value / expected - 1, mean.half / expected, mean.count)


def _traffic_claims(settings: Settings, results: Results) -> list[Claim]:
    found = []
    groups = settings["groups"]
    for slices in settings["slices"]:
        rounds = results.values("traffic", f"S={slices}", "rounds")
        fetched = mean_of(results.values("traffic", f"S={slices}", "fetched")).value
        forms, both = _forms(settings, slices), mean_of(rounds).value + fetched
        off = mean_of([count / forms["balanced"] - 1 for count in rounds])
        said = "71.5 rounds" if slices == 2 else f"{forms['paper']:.2f} rounds by its form"
        found += [
            Claim(
                f"S={slices}: rounds of a client as the balanced form has them (within 5 %)",
                said,
                f"{mean_of(rounds).text(1, 2)} against {forms['balanced']:.2f}",
                verdict(off, equal=0.05),
            ),
            Claim(
                f"S={slices}: bandwidth comparable to FedCIO's, if FedCIO sends L modules a round (at most twice)",
                "comparable, as FedCIO sends all L modules",
                f"{both:.0f} modules both ways against {2 * (ROUNDS + 1) * groups}",
                exactly(both <= ALIKE * 2 * (ROUNDS + 1) * groups),
            ),
            Claim(
                f"S={slices}: the same against FedCIO as it is here, with one module (ours)",
                "-",
                f"{both:.0f} modules both ways against {2 * (ROUNDS + 1)}",
                exactly(both <= ALIKE * 2 * (ROUNDS + 1)),
            ),
        ]
    return found


def draw(file: Path, settings: Settings, results: Results, tasks: list[str]) -> None:
    with figure(file, 3, width=3.8) as (left, middle, right):
        series = {
            shown: [mean_of(seconds(settings, results, task, system)) for task in tasks]
            for system, shown in SYSTEMS.items()
        }
        bars(left, tasks, series)
        for place, task in enumerate(tasks):
            base = mean_of(seconds(settings, results, task, "fedavg")).value
            for number, system in enumerate(SYSTEMS):
                share = counted(settings, results, task, system) / counted(settings, results, task, "fedavg")
                left.plot(place + (number - 1) * 0.8 / 3, base * share, "_", color="black", markersize=14)
            for number, system in enumerate(settings["grown"]):
                points = [(0.0, 0.0)]
                for size, records in sorted(enumerate(settings["records"]), key=lambda pair: pair[1]):
                    found = seconds(settings, results, task, system, size)
                    points += [(records, mean_of(found).value)] if found else []
                style = "o-" if place == 0 else "s--"
                middle.plot(
                    *zip(*points, strict=True),
                    style,
                    color=COLOURS[2 * number],
                    label=f"{SYSTEMS[system]}, {task}",
                )
            phases = results.values(cell(task, settings["records"][0]), "fedsgt", "phases")
            shares = [[value / (sum(seed) / len(seed)) for value in seed] for seed in phases]
            means = [mean_of(column).value for column in zip(*shares, strict=True)]
            depths = range(1, len(means) + 1)
            right.plot(depths, means, "o-", color=COLOURS[place], label=task, markersize=3)
        right.plot(
            depths,
            [2 * depth / (len(means) + 1) for depth in depths],
            "--",
            color="black",
            label="in proportion",
        )
        left.set_ylabel("CPU seconds")
        middle.set_xlabel("records")
        right.set_xlabel("phase (groups trained on)")
        right.set_ylabel("time, over the mean")
        for axes in (left, middle, right):
            axes.legend(fontsize=7)
