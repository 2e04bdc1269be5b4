"""READMEs and the index of experiments, written anew from the results between two marks."""

from __future__ import annotations

import html
import re
from pathlib import Path

from experiments.harness.pool import experiment
from experiments.harness.report import Report, Table
from experiments.harness.results import Results
from experiments.harness.settings import HERE, NAMES, Settings

BEGIN, END = "<!-- results -->", "<!-- end of results -->"
MARKED = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
CLAIMS = "claims.md"
HEAD = ("claim", "the paper", "here", "verdict")


def write_report(settings: Settings, results: Results, folder: Path) -> Path:
    """Write the plots and the README's tables of one experiment; elsewhere, a README of tables alone."""
    report: Report = experiment(settings.name).report(settings, results)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {folder / "plots" / f"{plot.name}.png": plot for plot in report.plots}
    for left in set((folder / "plots").glob("*.png")) - drawn.keys():
        left.unlink()  # pictures of settings that no longer exist
    for file, plot in drawn.items():
        plot.draw(file)
    readme = folder / "README.md"
    text = (
        readme.read_text(encoding="utf-8") if readme.is_file() else f"# {settings.name}\n\n{BEGIN}\n{END}\n"
    )
    body = f"{BEGIN}\n\n{results_text(report, results)}\n\n{END}"
    readme.write_text(MARKED.sub(lambda _: body, text), encoding="utf-8")
    (folder / CLAIMS).write_text(
        claims_table(report).markdown() + "\n" if report.claims else "", encoding="utf-8"
    )
    return readme


def results_text(report: Report, results: Results) -> str:
    parts = [claims_table(report).markdown()] if report.claims else []
    parts += [table.markdown() for table in report.tables]
    parts += [f"![{plot.caption}](plots/{plot.name}.png)\n\n{plot.caption}" for plot in report.plots]
    seeds = max((len(found) for found in results.cells.values()), default=0)
    spent = results.cpu_seconds()
    cost = f"{spent / 60:.0f} CPU minutes" if spent > 90 else f"{spent:.0f} CPU seconds"
    parts.append(f"At most {seeds} seeds; intervals are 95 % over seeds. All results here took {cost}.")
    return "\n\n".join(parts)


def claims_table(report: Report) -> Table:
    rows = [(claim.claim, claim.paper, claim.ours, f"**{claim.verdict}**") for claim in report.claims]
    return Table("Claims", HEAD, rows)


def write_index(home: Path) -> None:
    """Write `index.html`, which links all experiments, and at home the claims of all into the README."""
    present = [name for name in NAMES if (home / name / "README.md").is_file()]
    cards = "\n".join(_card(home, name) for name in present)
    (home / "index.html").write_text(PAGE.replace("CARDS", cards), encoding="utf-8")
    readme = home / "README.md"
    if home == HERE and readme.is_file():
        body = f"{BEGIN}\n\n{_all_claims(home, present)}\n\n{END}"
        readme.write_text(MARKED.sub(lambda _: body, readme.read_text(encoding="utf-8")), encoding="utf-8")


def _all_claims(home: Path, present: list[str]) -> str:
    """Return the claims of every experiment in one table."""
    rows = ["| experiment | claim | the paper | here | verdict |", "| --- | --- | --- | --- | --- |"]
    for name in present:
        file = home / name / CLAIMS
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        rows += [f"| [{name}]({name}/README.md) {line}" for line in lines if line.startswith("|")][2:]
    return "\n".join(rows)


def _card(home: Path, name: str) -> str:
    first = (home / name / "README.md").read_text(encoding="utf-8").splitlines()
    title = html.escape(next((line[2:] for line in first if line.startswith("# ")), name))
    pictures = sorted((home / name / "plots").glob("*.png"))
    shown = "".join(f'<img src="{name}/plots/{file.name}" alt="{file.stem}">' for file in pictures[:2])
    link = f"{name}/README.md"
    return f'<section><h2><a href="{link}">{title}</a></h2>{_verdicts(home, name)}{shown}</section>'


def _verdicts(home: Path, name: str) -> str:
    file = home / name / CLAIMS
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    rows = [[part.strip(" *") for part in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    items = "".join(_row(row) for row in rows[2:] if len(row) == len(HEAD))
    head = "".join(f"<th>{word}</th>" for word in HEAD)
    return f"<table><tr>{head}</tr>{items}</table>" if items else ""


def _row(cells: list[str]) -> str:
    *told, verdict = map(html.escape, cells)
    shown = "".join(f"<td>{cell}</td>" for cell in told)
    return f'<tr>{shown}<td class="{verdict.replace(" ", "-")}">{verdict}</td></tr>'


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>FedSGT: experiments</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
section { border-top: 1px solid #8884; padding: .5rem 0 1.5rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; width: 100%; }
td, th { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #8883; vertical-align: top; }
td:last-child { font-weight: bold; white-space: nowrap; }
.holds { color: #2e8540; }
.does-not-hold { color: #c8401e; }
img { max-width: 100%; background: #fff; border-radius: 4px; margin: .3rem 0; }
</style></head><body>
<h1>FedSGT: the paper's experiments</h1>
<p>Each was made by one command, <code>python -m experiments NAME</code>. Intervals are 95 % over seeds.</p>
CARDS
</body></html>
"""
