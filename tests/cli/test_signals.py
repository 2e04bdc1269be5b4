"""Signals that end a command end it in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fedsgt.cli.signals import exit_on_signals

NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_becomes_an_exit_and_the_next_one_nothing(number: signal.Signals) -> None:
    """Folders go when a context ends, which the default handlers would not wait for."""
    before, cleaned = signal.getsignal(number), list[int]()

    @contextmanager
    def cleaning() -> Iterator[None]:
        try:
            yield
        finally:
            for other in NUMBERS:
                signal.raise_signal(other)
            cleaned.append(number)

    with pytest.raises(SystemExit, match=str(128 + number)), exit_on_signals(), cleaning():
        signal.raise_signal(number)
    assert cleaned == [number]
    assert signal.getsignal(number) == before


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As SIGHUP is under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with exit_on_signals():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
