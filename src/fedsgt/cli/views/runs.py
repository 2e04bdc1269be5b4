"""Facts about a run, for `fedsgt runs` and `fedsgt show`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fedsgt.errors import InputError
from fedsgt.words import counted, counted_range, shown_bytes

if TYPE_CHECKING:
    from fedsgt.runs.folder import RunFolder
    from fedsgt.runs.health import ModuleHealth


def summary_json(folder: RunFolder) -> dict[str, Any]:
    """Return a run's size, and how much of it is trained, without checking the modules' bytes."""
    description = folder.description
    # One listing of the store, not a question for each module. A manifest is written last.
    there = set(folder.modules.objects.names("modules/"))
    return {
        "path": str(folder.path),
        "clients": len(description.clients),
        "groups": description.groups,
        "sequences": len(description.sequences),
        "plan": description.plan,
        "wanted": len(description.modules),
        "trained": sum(f"modules/{entry.key}/manifest.json" in there for entry in description.modules),
        "strategy": folder.config.serving.strategy,
        "accuracy": _accuracy(folder),
    }


def summary_line(summary: dict[str, Any]) -> str:
    """Return the summary of a run in one line."""
    from fedsgt.plans import STRATEGY_NAMES

    name, found = STRATEGY_NAMES[summary["strategy"]], summary["accuracy"]
    score = "" if found is None else f", {name} {found:.1%}"
    return (
        f"{summary['path']}: {summary['trained']} of {counted(summary['wanted'], 'module')}, "
        f"{counted(summary['clients'], 'client')}, {counted(summary['groups'], 'group')}, "
        f"{summary['plan']}{score}"
    )


def run_json(folder: RunFolder) -> dict[str, Any]:
    """Return the facts that `fedsgt show` prints about a run, for programs."""
    from fedsgt.runs.health import module_health

    description, health = folder.description, module_health(folder, folder.live())
    return {
        **summary_json(folder),
        "accuracy": _accuracy(folder, health.prefixes),
        "problems": [module.to_json() for module in health.problems],
        "backbone": {"name": folder.config.model.backbone, "sha256": description.backbone},
        "config_hash": description.config_hash,
        "profile": description.profile,
        "grouping": description.grouping,
        "looks_at_data": description.looks_at_data,
        "sequence_orders": description.sequences,
        "records": {client.name: sum(client.records) for client in description.clients},
        "traffic": _traffic(folder),
        "config": folder.config.model_dump(mode="json"),
        "modules": [_module(module) for module in health.modules.values()],
    }


def run_text(folder: RunFolder) -> str:
    """Return a run on one screen: the setting, each sequence with its modules, and their size on disk."""
    from fedsgt.runs.health import module_health, problem_lines

    health = module_health(folder, folder.live())
    served = {prefix[:depth] for prefix in health.prefixes for depth in range(1, len(prefix) + 1)}
    lines = problem_lines(health.problems)
    lines += [f"{folder.path}: {len(served)} of {counted(len(health.modules), 'module')} live", ""]
    lines += [*_settings(folder, health.prefixes), "", "sequences, group by group (· is not live)"]
    for index, (order, prefix) in enumerate(
        zip(health.live.description.sequences, health.prefixes, strict=True)
    ):
        cells = [f"{group:>3}" if depth < len(prefix) else f"{'·':>3}" for depth, group in enumerate(order)]
        lines.append(f"{index:>8} " + "".join(cells))
    if folder.config.store.url is None:  # a remote store takes a message for each size
        size = sum(path.stat().st_size for path in (folder.path / "modules").rglob("*") if path.is_file())
        lines += ["", f"on disk    {shown_bytes(size)} of modules"]
    return "\n".join(lines)


def _settings(folder: RunFolder, served: list[tuple[int, ...]]) -> list[str]:
    from fedsgt.plans import STRATEGY_NAMES
    from fedsgt.reporting.comparison import peft_in_words
    from fedsgt.serving.heads import solves

    description, config = folder.description, folder.config
    training, records = config.training, [sum(client.records) for client in description.clients]
    score, traffic = _accuracy(folder, served), _traffic(folder)
    name = STRATEGY_NAMES[config.serving.strategy]
    window = "" if training.window is None else f", window {training.window}"
    return [
        f"data       {config.data.source}, {counted(description.labels, 'label')}, "
        f"{counted(len(records), 'client')} with {counted_range(min(records), max(records), 'record')}",
        f"groups     {description.groups} ({description.grouping})",
        f"plan       {description.plan}, {counted(len(description.sequences), 'sequence')}",
        f"backbone   {config.model.backbone} {description.backbone[:12]}",
        f"modules    {peft_in_words(config)}, {counted(training.epochs, 'epoch')}, "
        f"{counted(training.rounds, 'round')} a phase{window}",
        f"heads      {'solved from statistics' if solves(config) else 'those that were trained'}",
        *([] if score is None else [f"accuracy   {score:.1%} ({name}, see fedsgt evaluate)"]),
        *([] if traffic is None else _traffic_lines(traffic)),
    ]


def _accuracy(folder: RunFolder, served: list[tuple[int, ...]] | None = None) -> float | None:
    """Return the accuracy of the strategy in use; None if what is live now, or `served`, has none."""
    from fedsgt.serving.evaluation import current_evaluation

    try:
        found = current_evaluation(folder, folder.live(), served)
        return None if found is None else found.strategies[folder.config.serving.strategy].accuracy
    # A damaged ledger or evaluation must not keep a run from being listed.
    except (InputError, KeyError, TypeError):
        return None


def _module(module: ModuleHealth) -> dict[str, Any]:
    """Return one wanted module; it is live if no deletion has hit it and it is as it was written."""
    entry, manifest = module.entry, module.manifest
    return {
        "key": entry.key,
        "prefix": entry.groups,
        "parent": entry.parent,
        "sha256": manifest.sha256 if manifest else None,
        "live": module.verdict == "live",
        "verdict": module.verdict,
        "fingerprints": entry.prefix,
        "loss": manifest.metrics.get("loss") if manifest else None,
    }


def _traffic(folder: RunFolder) -> dict[str, Any] | None:
    """Return the traffic over Flower so far, and the paper's rounds of a client in one whole training."""
    from fedsgt.runs.traffic import paper_rounds, read_traffic

    found = read_traffic(folder)
    if found is None:
        return None
    mean = {what: found.mean(what) for what in ("messages", "modules", "down", "up")}
    training = folder.config.training
    expected = paper_rounds(folder.description, training.rounds, training.window)
    return {**asdict(found), "mean": mean, "paper_rounds": expected}


def _traffic_lines(traffic: dict[str, Any]) -> list[str]:
    mean, expected = traffic["mean"], traffic["paper_rounds"]
    formula = "" if expected is None else f" ({expected:.2f} by the paper's formula)"
    return [
        f"traffic    {counted(traffic['rounds'], 'round')}; a client on average got "
        f"{mean['messages']:.1f} messages for {mean['modules']:.1f} updates{formula},",
        f"           {shown_bytes(mean['down'])} down and {shown_bytes(mean['up'])} up",
    ]
