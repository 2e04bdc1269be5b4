"""`fedsgt runs`, `fedsgt show`, `fedsgt export`: what runs there are, what is in one, and out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsgt.cli.commands.options import AsJson, RunPath, show_bytes
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.runs.folder import RunFolder


def runs(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to look.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder."""
    from fedsgt.runs.folder import find_runs, open_run

    if not folder.is_dir() and folder != Path("runs"):
        raise InputError(f"{folder}: no such folder")
    found = []
    for path in find_runs(folder):
        try:
            found.append(_summary(open_run(path)))
        except InputError as error:
            typer.echo(f"fedsgt: left out: {error}", err=True)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif not found:
        typer.echo(f"no runs in {folder}; `fedsgt demo` makes one")
    for entry in [] if as_json else found:
        score = "" if entry["accuracy"] is None else f", AllSeq {entry['accuracy']:.1%}"
        typer.echo(
            f"{entry['path']}: {entry['trained']} of {entry['wanted']} modules, {entry['clients']} clients, "
            f"{entry['groups']} groups, {entry['plan']}{score}"
        )


def show(run: RunPath, as_json: AsJson = False) -> None:
    """Show what a run is and which of its modules are there."""
    from fedsgt.runs.folder import open_run

    folder = open_run(run)
    folder.live()  # without its ledger nobody knows what is live
    modules = _modules(folder)
    if as_json:
        typer.echo(json.dumps({**_summary(folder), **_details(folder), "modules": modules}, indent=2))
        return
    typer.echo(_page(folder, modules))


def export(
    run: RunPath,
    sequence: Annotated[int, typer.Option(help="Which sequence, from 0.")],
    depth: Annotated[
        int | None, typer.Option(help="Only its first so many modules; all that are live without it.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder to write; export/ in the run without it.")
    ] = None,
) -> None:
    """Write a sequence's live modules as one stock PEFT adapter (LoRA: of rank k times r), with its head."""
    from fedsgt.cli.commands.train import ready_to_train

    ready_to_train()
    from fedsgt.runs.folder import open_run
    from fedsgt.serving.export import export_sequence

    folder = open_run(run)
    written = export_sequence(folder, sequence, depth, output)
    typer.echo(f"Wrote {written}: load it with peft.PeftModel.from_pretrained(model, {str(written)!r})")


def _summary(folder: RunFolder) -> dict[str, Any]:
    description = folder.description
    there = set(folder.modules.objects.names("modules/"))
    return {
        "path": str(folder.path),
        "clients": len(description.clients),
        "groups": description.groups,
        "sequences": len(description.sequences),
        "plan": description.plan,
        "wanted": len(description.modules),
        "trained": sum(f"modules/{entry.key}/manifest.json" in there for entry in description.modules),
        "accuracy": _accuracy(folder),
    }


def _accuracy(folder: RunFolder) -> float | None:
    """AllSeq's, if what is live now was evaluated."""
    from fedsgt.reporting.status import current_evaluation

    try:
        found = current_evaluation(folder, folder.live())
        return None if found is None else float(found["strategies"]["all"]["accuracy"])
    except (InputError, KeyError, TypeError):
        return None


def _modules(folder: RunFolder) -> list[dict[str, Any]]:
    """Every wanted module, after a full check: live is what is there and whole."""
    found = []
    for entry in folder.description.modules:
        live = folder.modules.state(entry.key) == "present"
        manifest = folder.modules.manifest(entry.key) if live else None
        found.append(
            {
                "key": entry.key,
                "prefix": entry.groups,
                "parent": entry.parent,
                "sha256": manifest.sha256 if manifest else None,
                "live": live,
                "fingerprints": entry.prefix,
                "loss": manifest.metrics.get("loss") if manifest else None,
            }
        )
    return found


def _details(folder: RunFolder) -> dict[str, Any]:
    description = folder.description
    return {
        "backbone": {"name": folder.config.model.backbone, "sha256": description.backbone},
        "config_hash": description.config_hash,
        "profile": description.profile,
        "grouping": description.grouping,
        "looks_at_data": description.looks_at_data,
        "sequence_orders": description.sequences,
        "records": {client.name: sum(client.records) for client in description.clients},
        "traffic": _traffic(folder),
        "config": folder.config.model_dump(mode="json"),
    }


def _traffic(folder: RunFolder) -> dict[str, Any] | None:
    """What Flower has carried so far, and the paper's rounds of a client in one whole training."""
    from dataclasses import asdict

    from fedsgt.runs.traffic import paper_rounds, read_traffic

    found = read_traffic(folder)
    if found is None:
        return None
    mean = {what: found.mean(what) for what in ("messages", "modules", "down", "up")}
    expected = paper_rounds(folder.description, folder.config.training.rounds)
    return {**asdict(found), "mean": mean, "paper_rounds": expected}


def _page(folder: RunFolder, modules: list[dict[str, Any]]) -> str:
    """One screen: the setting, each sequence with its modules, and what they take on disk."""
    description, config = folder.description, folder.config
    live = {tuple(entry["prefix"]) for entry in modules if entry["live"]}
    records = [sum(client.records) for client in description.clients]
    kind = config.peft.kind + (f" of rank {config.peft.rank}" if config.peft.kind == "lora" else "")
    lines = [
        f"{folder.path}: {len(live)} of {len(modules)} modules live",
        "",
        f"data       {config.data.source}, {description.labels} labels, {len(records)} clients "
        f"with {min(records)} to {max(records)} records",
        f"groups     {description.groups} ({description.grouping})",
        f"plan       {description.plan}, {len(description.sequences)} sequences",
        f"backbone   {config.model.backbone} {description.backbone[:12]}",
        f"modules    {kind}, {config.training.epochs} epochs, {config.training.rounds} rounds a phase",
    ]
    score = _accuracy(folder)
    if score is not None:
        lines.append(f"accuracy   {score:.1%} (AllSeq, see fedsgt evaluate)")
    lines += _traffic_lines(_traffic(folder))
    lines += ["", "sequences, group by group (· is not live)"]
    for index, order in enumerate(description.sequences):
        cells = [
            f"{group:>3}" if tuple(order[:depth]) in live else f"{'·':>3}"
            for depth, group in enumerate(order, start=1)
        ]
        lines.append(f"{index:>8} " + "".join(cells))
    if config.store.url is None:
        size = sum(path.stat().st_size for path in (folder.path / "modules").rglob("*") if path.is_file())
        lines += ["", f"on disk    {show_bytes(size)} of modules"]
    return "\n".join(lines)


def _traffic_lines(traffic: dict[str, Any] | None) -> list[str]:
    if traffic is None:
        return []
    mean, expected = traffic["mean"], traffic["paper_rounds"]
    formula = "" if expected is None else f" ({expected:.2f} by the paper's formula)"
    return [
        f"traffic    {traffic['rounds']} rounds; a client on average got {mean['messages']:.1f} messages "
        f"for {mean['modules']:.1f} updates{formula},",
        f"           {show_bytes(mean['down'])} down and {show_bytes(mean['up'])} up",
    ]
