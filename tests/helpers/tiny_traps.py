"""Failures inside worker processes, for tests that look at them from outside."""

from __future__ import annotations

import gc

from fedsgt.errors import InputError
from fedsgt.files.tensors import Tensors
from fedsgt.stack.backbone import Backbone


def trap(key: str) -> Tensors:
    """Stand in for the store, and fail as the key says."""
    if key == "input":
        raise InputError("the store has no room")
    if key == "bug":
        raise ZeroDivisionError("a bug in the worker")
    if key == "touch":
        for found in gc.get_objects():
            if isinstance(found, Backbone):
                next(iter(found.tensors.values())).add_(1e-6)
        raise InputError("touched")
    raise AssertionError(key)
