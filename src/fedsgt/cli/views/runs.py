"""Facts about a run, for `fedsgt runs` and `fedsgt show`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fedsgt.errors import InputError
from fedsgt.words import counted, counted_range, shown_bytes

if TYPE_CHECKING:
    from fedsgt.runs.folder import RunFolder
    from fedsgt.runs.health import ModuleHealth
    from fedsgt.runs.state import Live


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
    from fedsgt.runs.records_left import records_left

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
        "records_left": {
            client.name: sum(records_left(health.live, number))
            for number, client in enumerate(health.live.description.clients)
        },
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
    live = f"{len(served)} of {counted(len(health.modules), 'module')} live"
    lines += [f"{folder.path}: {live if health.modules else 'the plan has no modules'}", ""]
    lines += _settings(folder, health.live, health.prefixes)
    if not health.modules:
        return "\n".join(lines)
    lines += ["", "sequences, group by group (· is not live)"]
    for index, (order, prefix) in enumerate(
        zip(health.live.description.sequences, health.prefixes, strict=True)
    ):
        cells = [f"{group:>3}" if depth < len(prefix) else f"{'·':>3}" for depth, group in enumerate(order)]
        lines.append(f"{index:>8} " + "".join(cells))
    if folder.config.store.url is None:  # a remote store takes a message for each size
        size = sum(path.stat().st_size for path in (folder.path / "modules").rglob("*") if path.is_file())
        lines += ["", f"on disk    {shown_bytes(size)} of modules"]
    return "\n".join(lines)


def _settings(folder: RunFolder, live: Live, served: list[tuple[int, ...]]) -> list[str]:
    from fedsgt.plans import STRATEGY_NAMES
    from fedsgt.reporting.comparison import peft_in_words
    from fedsgt.runs.records_left import records_left

    description, config, training = live.description, folder.config, folder.config.training
    held = [sum(client.records) for client in description.clients]
    records = [sum(records_left(live, number)) for number in range(len(held))]
    left = "" if records == held else " left"
    score, traffic = _accuracy(folder, served), _traffic(folder)
    name = STRATEGY_NAMES[config.serving.strategy]
    window = "" if training.window is None else f", window {training.window}"
    return [
        f"data       {config.data.source}, {counted(description.labels, 'label')}, "
        f"{counted(len(records), 'client')} with {counted_range(min(records), max(records), 'record')}{left}",
        f"groups     {description.groups} ({description.grouping})",
        f"plan       {description.plan}, {counted(len(description.sequences), 'sequence')}"
        if description.modules
        else f"plan       {description.plan}",
        f"backbone   {config.model.backbone} {description.backbone[:12]}",
        f"modules    {peft_in_words(config)}, {counted(training.epochs, 'epoch')}, "
        f"{counted(training.rounds, 'round')} a phase{window}"
        if description.modules
        else "modules    none",
        f"heads      {_heads(folder, live)}",
        *([] if score is None else [f"accuracy   {score:.1%} ({name}, see fedsgt evaluate)"]),
        *([] if traffic is None else _traffic_lines(traffic)),
    ]


def _heads(folder: RunFolder, live: Live) -> str:
    """Return in words which heads answer."""
    from fedsgt.reporting.heads import a_record_is_left, solved_heads_answer
    from fedsgt.serving.heads import solves

    trained = "those that were trained" if live.description.modules else "none"
    if not solves(folder.config):
        return trained
    if not a_record_is_left(live):
        return "none, as no record is left to solve one from"
    if not solved_heads_answer(folder, live):
        return f"{trained}, as the bare backbone's statistics are missing or damaged"
    return "solved from statistics"


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
