"""Text of a new configuration for data that somebody has, with a comment for each choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli_w

from fedsgt.planning.purpose import PASSES, Purpose, Setting
from fedsgt.words import counted, counted_range, printable

if TYPE_CHECKING:
    from fedsgt.data.inspect import Found

TINY_VIT, SMALL_TEXT_MODEL = "fedsgt/tiny-vit", "sentence-transformers/all-MiniLM-L6-v2"
TEST_SHARE = 0.2
MOST_SHOWN, LONGEST_LINE = 5, 100
HEADS = (
    "# Heads that answer are solved from statistics of all retained records; uncomment for those that were\n"
    "# trained with the modules, as in the paper.\n"
    "# [heads]\n"
    "# solve = false"
)
_KINDS = {
    Purpose.RECORDS: "records",
    Purpose.CLIENTS: "whole clients",
    Purpose.BOTH: "records and of whole clients",
}


@dataclass(frozen=True)
class Sizes:
    """Numbers that the data can carry: every slice and every group gets records."""

    clients: int
    setting: Setting


def starter_text(source: str, found: Found, sizes: Sizes, backbone: str | None) -> str:
    """Return the configuration as TOML."""
    sections = [
        f"# A run of FedSGT on {printable(source)}. `fedsgt init` looked at the data once, and nothing\n"
        "# looks again later: change here what it got wrong. docs/configuration.md lists all keys.",
        "[data]\n" + _data(source, found, sizes),
        grouping_text(sizes.setting),
        _model(found, backbone),
        _training(found),
        HEADS,
    ]
    return "\n\n".join(sections) + "\n"


def found_lines(source: str, found: Found, sizes: Sizes, backbone: str) -> list[str]:
    """Return what was found and decided, in a few lines."""
    inputs = " and ".join(map(_quoted, found.inputs)) or "the image files"
    kind = "texts" if found.task == "text" else "paths of images" if found.paths else "images"
    return [
        f"{printable(source)}: {counted(found.records, 'record')} ({found.format})",
        f"  input    {inputs} ({kind})",
        f"  label    {_quoted(found.label) if found.label else 'the folder'}: {_label_words(found)}",
        f"  id       {_id_words(found)}",
        f"  clients  {_client_words(found, sizes)}",
        f"  test     {_test_words(found)}",
        f"  groups   {sizes.setting.groups}, of {counted(sizes.setting.slices, 'slice')} a client",
        f"  for      {purpose_words(sizes.setting)}",
        f"  model    {printable(backbone)}",
    ]


def purpose_words(setting: Setting) -> str:
    """Return what the settings are for, and how much they withstand."""
    return f"deletions of {_KINDS[setting.purpose]}: {setting.withstands()}"


def _data(source: str, found: Found, sizes: Sizes) -> str:
    lines = [_entry("source", source, "a relative path starts where fedsgt is called")]
    if found.id is None:
        lines.append("# An image's id is its path in the folder, and its label is the folder that it is in.")
    else:
        lines.append(_entry("id_column", found.id, _id_words(found)))
        lines.append(_entry("label_column", found.label, None))
    if found.numbered:
        lines.append(_entry("labels", len(found.labels), f"numbers from 0 on: {_label_words(found)}"))
    else:
        lines.append("# All labels that may ever occur, in order; add those that are missing.")
        lines.append(_entry("label_names", list(found.labels), None))
    if found.inputs:
        kind = "texts" if found.task == "text" else "paths of images" if found.paths else "images"
        lines.append(_entry("input_columns", list(found.inputs), kind))
    lines += _clients(found, sizes)
    if found.test is None:
        lines.append(_entry("test_share", TEST_SHARE, _test_words(found)))
    else:
        lines.append(f"# Tested on {printable(found.test.name)}, the source's own part for that.")
    lines.append(_entry("seed", 0, None))
    return "\n".join(lines)


def _clients(found: Found, sizes: Sizes) -> list[str]:
    if found.client is None:
        return [
            _entry("clients", sizes.clients, "simulated: no column names the records' owners"),
            _entry("partition", "dirichlet", "or iid; or given, if a column names the owners"),
            _entry("alpha", 0.3, "small is skewed: each client sees few labels"),
        ]
    return [
        _entry("partition", "given", f"{_client_words(found, sizes)}; each is a client"),
        _entry("client_column", found.client, None),
        _entry("erase", "tombstone", 'or "rewrite": deleted records are taken out of the file, too'),
    ]


def grouping_text(setting: Setting) -> str:
    """Return the sections of the groups and of the plan."""
    lines = [
        f"# For deletions of {_KINDS[setting.purpose]}: `fedsgt init --for` writes other settings.",
        "[grouping]",
        _entry("groups", setting.groups, "L: a deletion removes one of these, or all that its client is in"),
        _entry("slices", setting.slices, "S: parts of a client's data; each part is in one group"),
    ]
    if setting.limits is not None:
        lines.append(
            _entry(
                "limits",
                setting.limits,
                "most groups that one client may be in: a client that leaves hits all of them",
            )
        )
    if setting.seed:
        lines.append(_entry("seed", setting.seed, "the first with which every group has two clients"))
    return "\n".join(
        [
            *lines,
            "",
            "[plan]",
            _entry("kind", "tree", "or rotations, as in the paper; see `fedsgt plan`"),
            _entry("passes", PASSES, "over the data, at most: as many as FedAvg takes in ten rounds"),
        ]
    )


def _model(found: Found, backbone: str | None) -> str:
    lines = ["[model]"]
    if backbone is not None:
        lines.append(_entry("backbone", backbone, None))
    elif found.task == "image":
        lines.append(
            "# A tiny ViT that comes with the package, made from handwritten digits: enough for a try."
        )
        lines.append("# For photographs give a larger one, such as google/vit-base-patch16-224-in21k.")
        lines.append(_entry("backbone", TINY_VIT, None))
    else:
        lines.append("# A small model, fetched from the hub once; a folder with a model works as well.")
        lines.append(_entry("backbone", SMALL_TEXT_MODEL, None))
    lines.append(_entry("task", found.task, None))
    if found.task == "text":
        lines.append(_entry("too_long", "cut", "texts of more tokens than the model takes are cut"))
    return "\n".join(lines)


def _training(found: Found) -> str:
    return "\n".join(
        [
            "[peft]",
            _entry("kind", "lora", "or ia3, prefix"),
            _entry("rank", 8, None),
            "",
            "[training]",
            _entry("learning_rate", 0.005 if found.task == "image" else 0.002, None),
            _entry("epochs", 2, "of a client's local training in a round"),
            _entry("batch_size", 32, None),
            "",
            "[engine]",
            _entry("workers", 2, "processes, one thread each; the result does not depend on their number"),
        ]
    )


def _entry(key: str, value: Any, comment: str | None) -> str:
    """Return one line of TOML; a long list goes over several lines."""
    text = tomli_w.dumps({key: value}).rstrip("\n")
    if isinstance(value, list):
        each = [tomli_w.dumps({key: one}).rstrip("\n").removeprefix(f"{key} = ") for one in value]
        short = f"{key} = [{', '.join(each)}]"
        text = short if len(short) <= LONGEST_LINE else text
    return text if comment is None else f"{text} # {comment}"


def _label_words(found: Found) -> str:
    shown = ", ".join(printable(label, 30) for label in found.labels[:MOST_SHOWN])
    more = ", ..." if len(found.labels) > MOST_SHOWN else ""
    return f"{counted(len(found.labels), 'label')} ({shown}{more})"


def _id_words(found: Found) -> str:
    if found.id is None:
        return "the path of the image in the folder"
    if found.id == "#row":
        return "the row's number: rows must never move"
    return f"{_quoted(found.id)}: a value of its own in every row, which must stay the record's for good"


def _client_words(found: Found, sizes: Sizes) -> str:
    if found.client is None:
        return f"{sizes.clients} simulated, as no column names owners"
    held = counted_range(min(found.owners), max(found.owners), "record")
    return f"{_quoted(found.client)}: {counted(len(found.owners), 'owner')} with {held}"


def _test_words(found: Found) -> str:
    if found.test is not None:
        return f"the part {printable(found.test.name)}"
    return f"no test part: {TEST_SHARE:.0%} of the records are kept for testing, chosen by a hash of the id"


def _quoted(name: str | None) -> str:
    # A line break in a name would end the comment that it stands in.
    return f"'{printable(name, 100)}'"
