"""Theory against simulation: live data, deletion rate, survival, rounds (the paper's Figure 4, and ours)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.harness.common import common
from experiments.harness.pool import cells_of
from experiments.harness.report import Plot, Report, Table
from experiments.harness.results import Cell, Results
from experiments.harness.settings import Settings, load_settings
from experiments.theory import proxy, simulation
from experiments.theory.claims import live_claims, rate_claims, round_claims
from experiments.theory.drawing import SURVIVAL, draw_live, draw_survival, live_caption
from experiments.theory.reading import average, foretold, of_clients, words


def cells(settings: Settings) -> list[Cell]:
    keys = ("clients", "groups", "clusters", "slices", "fewer", "more", "streams", "requests", "shown")
    about = {key: settings[key] for key in (*keys, "client_slices", "groupings")}
    names = [*(f"slices-{slices}" for slices in settings["slices"]), "fedcio", "clients", "skewed", "rounds"]
    return [Cell(name, about, name) for name in names]


def measure(settings: Settings, cell: Cell, seed: int, work: Path) -> dict[str, Any]:
    kinds = {
        "fedcio": simulation.fedcio_requests,
        "clients": simulation.whole_clients,
        "skewed": simulation.skewed_requests,
        "rounds": simulation.client_rounds,
    }
    if cell.name in kinds:
        return kinds[cell.name](settings, seed)
    return simulation.slice_requests(settings, int(cell.name.removeprefix("slices-")), seed)


def report(settings: Settings, results: Results) -> Report:
    results = common(results, results.cells) or results
    tables, plots, claims = [], [], []
    base = f"slices-{settings['slices'][0]}"
    if results.cells.get(base) and results.cells.get("fedcio"):
        tables += [_rates(settings, results), _live(settings, results, base)]
        plots += [
            Plot("live", live_caption(settings), lambda file: draw_live(file, settings, results, base)),
            Plot("survival", SURVIVAL, lambda file: draw_survival(file, settings, results, base)),
        ]
        claims += rate_claims(settings, results, base) + live_claims(settings, results, base)
    if results.cells.get("rounds"):
        tables.append(_rounds(settings, results))
        claims += round_claims(settings, results)
    found = proxy.compared(_unlearning(settings, results.folder.parent.parent))
    if found:
        plots.append(Plot("proxy", proxy.CAPTION, lambda file: proxy.draw(file, found)))
        claims += proxy.claims(found)
    return Report(tables, plots, claims)


def _unlearning(settings: Settings, home: Path) -> Results:
    """Return the results of the unlearning experiment for its present settings."""
    own = load_settings("unlearning", settings.quick)
    return Results.read(home / "unlearning" / "results").only(cells_of(own), own.seeds)


def _rates(settings: Settings, results: Results) -> Table:
    rows = []
    for slices in settings["slices"]:
        for name in simulation.plans(settings) if results.cells.get(f"slices-{slices}") else ():
            cell = f"slices-{slices}"
            simulated = average(results, cell, name, "simulated", "rate").text(1, 2)
            formula = foretold(results, cell, name).value
            rows.append(
                ["records of one slice", f"FedSGT, {words(name)}, S={slices}", simulated, f"{formula:.2f}"]
            )
    formula = foretold(results, "fedcio", "fedcio").value
    simulated = average(results, "fedcio", "fedcio", "simulated", "rate").text(1, 2)
    rows.append(["records of one slice", f"FedCIO, c={settings['clusters']}", simulated, f"{formula:.2f}"])
    if results.cells.get("skewed"):
        rows.append(
            [
                "the same, client k asks as 1/k",
                f"FedSGT, B={settings['groups']}, S={settings['slices'][0]}",
                average(results, "skewed", "simulated", "rate").text(1, 2),
                foretold(results, "skewed").text(1, 2),
            ]
        )
    for name in of_clients(settings) if results.cells.get("clients") else ():
        shown = f"FedCIO, c={settings['clusters']}" if name == "fedcio" else f"FedSGT, B=L, {name}"
        formula = average(results, "clients", name, "theory").value
        rows.append(
            ["whole clients", shown, average(results, "clients", name, "rate").text(1, 2), f"{formula:.2f}"]
        )
    return Table(
        "Deletion rate: the request that ends the service (one more than are withstood)",
        ("requests", "system", "simulated", "closed form"),
        rows,
    )


def _live(settings: Settings, results: Results, base: str) -> Table:
    numbers = (1, 3, 5, 10, 15, 20, 30)
    rows = []
    for name in [*simulation.plans(settings), "fedcio"]:
        cell, count = (base, settings["groups"]) if name != "fedcio" else ("fedcio", settings["clusters"])
        row = ["FedCIO, sum of clusters" if name == "fedcio" else words(name)]
        for number in numbers:
            simulated = average(results, cell, name, "simulated", "live", number)
            formula = average(results, cell, name, "theory", "live", number).value
            row.append(f"{simulated.text(100 / count)} ({100 * formula / count:.1f})")
        rows.append(row)
    title = "Expected live data in percent after so many requests: simulated (closed form)"
    return Table(title, ("plan", *map(str, numbers)), rows)


def _rounds(settings: Settings, results: Results) -> Table:
    rows = []
    for slices in settings["client_slices"]:
        entry = results.values("rounds", f"S={slices}")[0]
        row = [str(slices)]
        for what in ("joined", "rounds"):
            row.append(average(results, "rounds", f"S={slices}", what).text(1, 2))
            row += [f"{entry[f'{what}_independent']:.2f}", f"{entry[f'{what}_balanced']:.2f}"]
        rows.append(row)
    head = [
        f"{what}, {how}"
        for what in ("groups of a client", "rounds")
        for how in ("simulated", "paper", "balanced")
    ]
    return Table("Groups that a client is in (E[K]) and rounds that it takes part in", ("S", *head), rows)
