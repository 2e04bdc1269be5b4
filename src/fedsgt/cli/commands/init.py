"""`fedsgt init`: write a starter configuration, for the demo's data or for those that somebody has."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import fedsgt
from fedsgt.cli.commands.options import check_new_file, write_new_file
from fedsgt.cli.views.starter import (
    TEST_SHARE,
    Sizes,
    found_lines,
    grouping_text,
    purpose_words,
    starter_text,
)
from fedsgt.config import Config, load
from fedsgt.config.model import SIMULATED_CLIENTS
from fedsgt.errors import InputError
from fedsgt.planning.purpose import MOST_SLICES, Purpose, Setting, setting_for
from fedsgt.stack.checkpoint_files import backbone_problems
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.data.inspect import Found

STARTER = Path(fedsgt.__file__).parent / "assets" / "demo.toml"
MOST_CLIENTS = 10
MANY = 10  # records of a slice on average; hashes of ids decide, so fewer would leave gaps


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write the configuration to.")],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Csv, jsonl or parquet file, or folder of images, to write a configuration for.",
        ),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of the ids; '#row' takes row numbers.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(metavar="NAME", help="Column of the labels.")] = None,
    input_column: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Column of the images or texts; may be repeated.")
    ] = None,
    client_column: Annotated[str | None, typer.Option(metavar="NAME", help="Column of the owners.")] = None,
    backbone: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model: a folder, or its name on the hub.")
    ] = None,
    purpose: Annotated[
        Purpose, typer.Option("--for", help="Deletions to expect, which decide about groups and plan.")
    ] = Purpose.BOTH,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a commented configuration: the demo's, or one for data of your own (--data)."""
    check_new_file(file, force)
    if data is None:
        if id_column or label_column or input_column or client_column or backbone:
            raise InputError("columns and models are told together with --data PATH; nothing was written")
        setting = setting_for(purpose, SIMULATED_CLIENTS)
        text, told = _starter_for(setting), [f"For {purpose_words(setting)}"]
    else:
        from fedsgt.data.inspect import Asked, look_at

        if file.resolve() == Path(data).expanduser().resolve():
            raise InputError(f"{file}: the configuration would replace the data; give another name for it")
        found = look_at(data, Asked(id_column, label_column, tuple(input_column or ()), client_column))
        text, told = _text_for(data, found, backbone, purpose)
    write_new_file(file, text)
    for line in told:
        typer.echo(line)
    typer.echo(f"Wrote {file}. Next: fedsgt train {shlex.quote(str(file))}")


def _starter_for(setting: Setting) -> str:
    """Return the demo's configuration with the groups and the plan of this setting."""
    text = STARTER.read_text(encoding="utf-8")
    before, after = text.index("\n# For deletions"), text.index("\n\n[model]")
    return f"{text[:before]}\n{grouping_text(setting)}{text[after:]}"


def _text_for(source: str, found: Found, backbone: str | None, purpose: Purpose) -> tuple[str, list[str]]:
    """Return the first configuration that the data can carry, and what was decided."""
    problem = InputError(f"{source}: {counted(found.records, 'record')}: too few to train on")
    for sizes in _sizes(found, purpose):
        text = starter_text(source, found, sizes, backbone)
        try:
            config = load(tomllib.loads(text))
            _check(config)
        except InputError as error:
            problem = error
            continue
        if backbone is not None:
            unfit = backbone_problems(config.model, config.peft)
            if unfit:
                raise InputError.of("", unfit)
        return text, found_lines(source, found, sizes, config.model.backbone)
    raise InputError(f"{problem}; nothing was written")


def _sizes(found: Found, purpose: Purpose) -> Iterator[Sizes]:
    """Yield numbers of clients, slices and groups, those that are wished for first."""
    left = found.records if found.test is not None else int(found.records * (1 - TEST_SHARE))
    clients = len(found.owners) or min(MOST_CLIENTS, max(2, left // (2 * MANY)))
    least = min(found.owners, default=left // clients)
    tried = set[Sizes]()
    fewer = [clients] if found.owners else [clients, clients // 2, 2]
    for number, most_slices in product(fewer, (MOST_SLICES, 2, 1)):
        if most_slices == 1 or least >= MANY * most_slices:
            sizes = Sizes(max(2, number), setting_for(purpose, max(2, number), most_slices))
            if sizes not in tried:
                tried.add(sizes)
                yield sizes


def _check(config: Config) -> None:
    """Raise if a training could not begin: the data are read, dealt and grouped as it would do that."""
    from fedsgt import grouping
    from fedsgt.runs.records import load_clients, load_test

    clients = load_clients(config)
    load_test(config, clients.labels)
    settings = config.with_clients(len(clients.local))
    wanted = settings.grouping
    slices = settings.slices_per_client()
    grouped = grouping.make("random", slices, wanted.groups, limits=wanted.limits, seed=wanted.seed)
    sizes = chain.from_iterable(client.slice_sizes() for client in clients.local)
    filled = {group for group, size in zip(grouped.group_of.tolist(), sizes, strict=True) if size}
    if len(filled) < wanted.groups:
        raise InputError("there are too few records for groups that all have some")
