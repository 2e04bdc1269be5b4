"""Places of data and weights on this machine, for configurations that name them as on the hub."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fedsgt.config import Config
from fedsgt.errors import InputError

OURS = "data/"  # names of folders; others may be on the hub
FILE = Path(__file__).parent.parent / "places.toml"
ROOT = FILE.parent.parent


def placed(run: Config) -> Config:
    """Return the run with local folders in place of names, if `places.toml` has one that exists."""
    data = run.data.model_copy(update={"source": _place(run.data.source)})
    model = run.model.model_copy(update={"backbone": _place(run.model.backbone)})
    return run.model_copy(update={"data": data, "model": model})


def _place(name: str) -> str:
    place = _places().get(name)
    if place is None:
        return name
    path = _in_package(place.removeprefix("python:")) if place.startswith("python:") else ROOT / place
    if path is not None and path.exists():
        return str(path)
    if name.startswith(OURS):
        raise InputError(f"{name}: not at {place}; say in experiments/places.toml where this machine has it")
    return name


def _in_package(text: str) -> Path | None:
    """Return a folder inside an installed package, without importing the package."""
    package, _, rest = text.partition("/")
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) / rest if places else None


@cache
def _places() -> dict[str, str]:
    found: dict[str, str] = tomllib.loads(FILE.read_text(encoding="utf-8"))["places"]
    return found
