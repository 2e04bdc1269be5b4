"""Import of transformers without what no supported model needs, which takes a seventh of the time to answer.

Nothing is missing afterwards: what was left out is imported when somebody uses it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

MODELS, SOLVERS = "transformers.models", "scipy.optimize"


def import_transformers() -> None:
    """Import the part of transformers that opens models, unless this process has imported it before."""
    if "transformers" in sys.modules:
        return
    _hold_back_models()
    with _solvers_held_back():
        import_module("transformers.modeling_utils")


def _hold_back_models() -> None:
    """Make the package of models without running it: it would read thousands of files for their names.

    The package around it has read them already, and finds every model by itself.
    """
    outer = find_spec("transformers")
    spec = PathFinder.find_spec(MODELS, outer.submodule_search_locations) if outer is not None else None
    if spec is None:
        return

    def find(name: str) -> Any:
        _refuse_special(name)
        try:
            return import_module(f"{MODELS}.{name}")
        except ModuleNotFoundError:
            return getattr(import_module("transformers"), name)

    package = module_from_spec(spec)
    package.__dict__["__getattr__"] = find
    sys.modules[MODELS] = package


@contextmanager
def _solvers_held_back() -> Iterator[None]:
    """Put another module in the place of SciPy's solvers meanwhile; only object detection needs them."""
    if SOLVERS in sys.modules:
        yield
        return
    instead = ModuleType(SOLVERS)

    def solve(*arguments: Any, **options: Any) -> Any:
        return find("linear_sum_assignment")(*arguments, **options)

    def find(name: str) -> Any:
        _refuse_special(name)
        if sys.modules.get(SOLVERS) is instead:
            del sys.modules[SOLVERS]
        return getattr(import_module(SOLVERS), name)

    instead.__dict__.update(linear_sum_assignment=solve, __getattr__=find)
    sys.modules[SOLVERS] = instead
    try:
        yield
    finally:
        if sys.modules.get(SOLVERS) is instead:
            del sys.modules[SOLVERS]


def _refuse_special(name: str) -> None:
    # Python's own `inspect` looks at every module for such names.
    if name.startswith("__"):
        raise AttributeError(name)
