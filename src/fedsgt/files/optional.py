"""Packages that only some runs need: imported where they are used, so that the command starts fast."""

import gc
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fedsgt.errors import InputError
from fedsgt.words import one_line


def require(name: str) -> Any:
    """Import and return the module; if that fails, say what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise InputError(
            f"this data source needs the package {package}, which cannot be imported ({one_line(error)}); "
            "install it with pip install 'fedsgt[train]'"
        ) from error


def check_flower() -> None:
    """Raise if Flower is not installed; called before any work, so that nothing is left half done."""
    # Looked for, not imported: importing Flower takes seconds.
    if find_spec("flwr") is None:
        raise InputError("this needs Flower: pip install 'fedsgt[flower]'")


def import_fast() -> None:
    """Look for garbage rarely in this process, which must be one of our own.

    Importing torch and transformers makes a million objects and no garbage, and Python would look through
    them again and again: for a third of the time that it takes.
    """
    gc.set_threshold(10_000)


def end_fast() -> None:
    """Do not look for garbage at the end of this process, which takes as long again."""
    gc.freeze()
