"""Packages that only some need: imported where used, so that the command starts fast."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fedsgt.errors import InputError


def require(name: str) -> Any:
    """The module of that name; where it is missing, an error that says what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise InputError(
            f"this data source needs the package {package}, which cannot be imported ({one_line(error)}); "
            "install it with pip install 'fedsgt[train]'"
        ) from error


def check_flower() -> None:
    """Said before anything is begun."""
    if find_spec("flwr") is None:
        raise InputError("this needs Flower: pip install 'fedsgt[flower]'")


def one_line(error: Exception) -> str:
    """What another package says was wrong, without its line breaks."""
    return " ".join(str(error).split()) or type(error).__name__
