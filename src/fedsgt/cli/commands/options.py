"""Options that several commands share, and functions that read their texts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.config import SYSTEMS, Config, load, system_settings
from fedsgt.errors import InputError

if TYPE_CHECKING:
    from fedsgt.api.run import Run

ConfigFile = Annotated[
    Path | None,
    typer.Argument(metavar="[CONFIG]", help="TOML file of the run (default: the paper's setting)."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "-s", "--set", metavar="SECTION.KEY=VALUE", help="Override one value of the file; may be repeated."
    ),
]
SystemName = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="NAME",
        help=f"Override the file with the settings of a compared system: {', '.join(SYSTEMS)}.",
    ),
]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

PICTURES = (".svg", ".png", ".pdf")
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def opened(path: Path) -> Run:
    """Open a run as the Python interface does, but under the path that was typed, which messages show."""
    from fedsgt.api.run import Run
    from fedsgt.runs.folder import open_run

    return Run(open_run(path))


def load_run(config: Path | None, system: str | None, overrides: Iterable[str]) -> Config:
    """Load the file; the system's settings override it, and single overrides come last."""
    return load(config, [*system_settings(system), *overrides])


def read_bytes(text: str) -> int:
    """Read a size such as 2400000, 2.4MB or 1.2MiB."""
    # Bytes are whole; other units may have a fraction.
    match = re.fullmatch(r"(\d+)\s*b?|(\d+(?:\.\d+)?)\s*([kmg]i?)b?", text.strip().lower())
    size = round(float(match[1] or match[2]) * UNITS[match[3] or ""]) if match else 0
    if size < 1:
        raise InputError(f"module size: {text!r} is no size; write it as 2.4MB, 1.2MiB or a number of bytes")
    return size


def check_plot(path: Path) -> None:
    """Check before the work that a picture can be written to the path after it."""
    if path.suffix not in PICTURES:
        raise InputError(f"plot: {str(path)!r} is no picture's name; it must end in {', '.join(PICTURES)}")
    if not path.parent.is_dir():
        raise InputError(f"plot: the folder {path.parent} does not exist")


def check_new_file(path: Path, force: bool) -> None:
    """Check before the work that a file can be written to the path after it."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    if os.path.lexists(path) and not force:
        raise InputError(f"{path}: is there already; give another name, or --force to write over it")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written (no right to); give another name")


def write_new_file(path: Path, text: str) -> None:
    """Write the text, or say why that is not possible."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def read_numbers(name: str, text: str) -> list[float]:
    """Read numbers separated by commas or blanks, from the text itself or from the file that it names."""
    path = Path(text)
    try:
        source = path.read_text(encoding="utf-8") if path.is_file() else text
        numbers = [float(part) for part in re.split(r"[\s,]+", source.strip()) if part]
    except (ValueError, OSError):
        numbers = []
    if not numbers:
        raise InputError(
            f"{name}: {text!r} is neither a list of numbers such as 0.5,0.3,0.2 nor a file that holds one"
        )
    return numbers
