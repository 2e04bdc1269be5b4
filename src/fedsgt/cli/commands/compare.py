"""`fedsgt compare`: accuracy of several systems under the same deletion requests."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsgt.cli.commands.options import AsJson, Overrides, check_new_file, check_plot
from fedsgt.cli.commands.train import use_profile
from fedsgt.cli.commands.unlearn import read_batch
from fedsgt.config import SYSTEMS
from fedsgt.errors import InputError, told_by

if TYPE_CHECKING:
    from fedsgt.api.results.comparison import Comparison

DEFAULT = ("fedsgt", "fedavg", "fedcio")


def compare(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="TOML file that all systems share.")],
    system: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"System to compare, may be repeated: {', '.join(SYSTEMS)}; or a label with settings: "
            "'tree: plan.kind=tree', 'four: fedcio grouping.groups=4 plan.shards=4' "
            f"(default: {', '.join(DEFAULT)}).",
        ),
    ] = None,
    stream: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Requests: slices, clients or records, drawn at random; or a JSON file as for unlearn "
            "--batch, an entry for each request.",
        ),
    ] = "slices",
    requests: Annotated[int, typer.Option(help="Number of requests that are drawn.")] = 10,
    seeds: Annotated[str, typer.Option(help="Number of seeds, or the seeds: 3 is 0,1,2.")] = "1",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Keep runs and results here, and go on here after a stop.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the curves into this file (.svg, .png or .pdf).")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write all results into this file.")
    ] = None,
    as_json: AsJson = False,
    overrides: Overrides = None,
) -> None:
    """Train several systems, make the same deletions in each, and show the accuracy after each request."""
    use_profile()
    arguments: dict[str, Any] = {
        "config": config,
        "systems": [_system(text) for text in system or DEFAULT],
        "stream": stream,
        "requests": requests,
        "seeds": _seeds(seeds),
        "output": output,
        "overrides": overrides or [],
    }
    _check(arguments, plot, csv)
    import fedsgt
    from fedsgt.cli.views.comparison import comparison_text, comparison_view

    with _stoppable(output), comparison_view() as view:
        found = fedsgt.compare(**arguments, progress=view)
    _write(found, plot, csv)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1))
        return
    typer.echo(comparison_text(found))
    for path, what in ((plot, "drawn into"), (csv, "all results in"), (output, "runs and results in")):
        if path is not None:
            typer.echo(f"{what} {path}")


def _system(text: str) -> str | tuple[str, list[str]]:
    """Read "fedcio", or a label with settings after a colon."""
    label, colon, settings = text.partition(":")
    if not colon:
        return text.strip()
    try:
        return label.strip(), shlex.split(settings)
    except ValueError as error:  # a quotation mark that is not closed
        raise InputError(f"--system {text!r}: {error}") from None


def _seeds(text: str) -> Any:
    """Read "3" as a number and "0,4" as a list; a wrong text is left for the check of all arguments."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        return text
    numbers = [int(part) for part in parts]
    return numbers[0] if len(numbers) == 1 else numbers


def _check(arguments: dict[str, Any], plot: Path | None, csv: Path | None) -> None:
    """Tell all that is wrong before any training; a file of requests is read here."""
    from fedsgt.api.comparing.arguments import read_arguments

    mistakes: list[str] = []
    try:
        if arguments["stream"].endswith(".json"):
            arguments["stream"] = read_batch(Path(arguments["stream"]))
    except InputError as error:
        mistakes.append(str(error))
        arguments = arguments | {"stream": "slices"}  # the rest is checked all the same
    mistakes += told_by(lambda: read_arguments(**arguments, data=None))
    if plot is not None:
        mistakes += told_by(partial(check_plot, plot))
    if csv is not None:
        mistakes += told_by(partial(check_new_file, csv, force=True))
    if mistakes:
        raise InputError.of("", mistakes)


def _write(found: Comparison, plot: Path | None, csv: Path | None) -> None:
    if plot is not None:
        found.plot(plot)
    if csv is not None:
        try:
            found.frame.to_csv(csv, index=False)
        except OSError as error:
            raise InputError(f"csv: {csv} cannot be written ({error.strerror})") from None


@contextmanager
def _stoppable(output: Path | None) -> Iterator[None]:
    """Turn Ctrl-C into a message and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        kept = (
            "nothing is kept; with -o FOLDER it could go on" if output is None else "the same command goes on"
        )
        typer.echo(f"fedsgt: stopped; {kept}", err=True)
        raise typer.Exit(130) from None
