"""Updates and results tell what was trained, and not how long it took or which values came out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedsgt.engine.task import Result, RoundFailed, Task, Update

STATE = {"head": np.array([1234.5], dtype=np.float32)}


def test_equal_trainings_are_equal_however_long_they_took() -> None:
    update = Update("a", {}, 3, 0.5, seconds=1.0, preparing=2.0)
    assert update == replace(update, seconds=7.0, preparing=0.0)
    assert update != replace(update, records=4)
    result = Result("k", 1, {}, {"a": 3}, 0.5, seconds=1.0)
    assert result == replace(result, seconds=9.0)


def test_values_are_not_printed() -> None:
    for thing in (
        Task("k", (), {"a": (0,)}, state=STATE),
        Update("a", STATE, 3, 0.5),
        Result("k", 1, STATE, {"a": 3}, 0.5),
    ):
        assert "1234" not in repr(thing)


def test_a_round_that_failed_names_its_module_and_keeps_its_cause() -> None:
    cause = ValueError("too large")
    error = RoundFailed("0123456789abcdef", cause)
    assert (str(error), error.key, error.cause) == (
        "module 0123456789ab: too large",
        "0123456789abcdef",
        cause,
    )
