"""Signals that end a command end it in order: by one exception, wherever they come."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from fedsgt.cli.signals import Terminated, exceptions_for_signals, exit_on_signals

NUMBERS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
SECONDS = 20.0  # until a test fails that waits for a signal


def exception_of(number: signal.Signals) -> type[BaseException]:
    return KeyboardInterrupt if number == signal.SIGINT else Terminated


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_becomes_an_exception_and_the_next_one_nothing(number: signal.Signals) -> None:
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

    def stop() -> None:
        # The second context has handlers too, and must not forget that a signal came before.
        with exceptions_for_signals(), cleaning(), exit_on_signals():
            signal.raise_signal(number)

    with pytest.raises(exception_of(number)) as raised:
        stop()
    assert cleaned == [number]
    assert signal.getsignal(number) == before
    if isinstance(raised.value, Terminated):
        assert raised.value.code == 128 + number
    with pytest.raises(exception_of(number)):  # a new command knows of no signal
        stop()


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As SIGHUP is under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with exit_on_signals():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_in_an_import_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library may take any exception for a missing package, and be incomplete from then on."""
    (tmp_path / "interrupted_import.py").write_text(
        "import signal, time\nsignal.raise_signal(signal.SIGTERM)\ntime.sleep(0.1)\nWHOLE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = []

    def load() -> None:
        with exit_on_signals():
            found.append(import_module("interrupted_import").WHOLE)
            time.sleep(SECONDS)

    with pytest.raises(Terminated):
        load()
    assert found == [True]


def test_a_signal_that_another_thread_receives_wakes_the_main_one() -> None:
    """Libraries start threads, and the system may give a signal to any of them while the main one sleeps."""
    (reader, writer), late = os.pipe(), list[bool]()

    def receive() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        time.sleep(SECONDS)
        late.append(True)
        os.write(writer, b"wake up")

    def wait() -> bytes:
        with exit_on_signals():
            threading.Thread(target=receive, daemon=True).start()
            return os.read(reader, 100)

    with pytest.raises(Terminated):
        wait()
    assert late == []


def test_an_exception_that_nobody_can_catch_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    class Odd:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def end_one() -> None:
        with exceptions_for_signals():
            Odd()
            time.sleep(SECONDS)

    with pytest.raises(KeyboardInterrupt):
        end_one()
    assert capsys.readouterr().err == ""


def test_what_libraries_log_of_it_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """As SQLAlchemy does, with a traceback, before it passes the exception on."""
    logger = logging.Logger("a library that nobody has set up")

    def passed_on() -> None:
        with exceptions_for_signals():
            logger.error("something else")
            try:
                signal.raise_signal(signal.SIGINT)
            except BaseException:
                logger.exception("an exception")
                raise

    with pytest.raises(KeyboardInterrupt):
        passed_on()
    assert capsys.readouterr().err == "something else\n"


def test_only_the_main_thread_has_handlers() -> None:
    done = []

    def work() -> None:
        with exit_on_signals():
            done.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.SIG_DFL]


LEAVING = """
import signal, sys, time
from fedsgt.cli import signals
signals.PATIENCE_SECONDS = 0.05

def twice():
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGINT)  # at once: ignored
        time.sleep(0.1)
        print("cleaning", flush=True)
        signal.raise_signal(signal.SIGINT)
        print("cleaned", flush=True)

def importing():
    sys.path.insert(0, sys.argv[2])
    import interrupted_import
    print("imported", flush=True)

with signals.exceptions_for_signals():
    globals()[sys.argv[1]]()
"""


@pytest.mark.parametrize(
    ("what", "code", "output"), [("twice", 130, "cleaning\n"), ("importing", 143, "")], ids=str
)
def test_the_process_ends_at_once(what: str, code: int, output: str, tmp_path: Path) -> None:
    """A person who insists does not wait for the clean-up; where nothing is to be cleaned up, nobody does."""
    (tmp_path / "interrupted_import.py").write_text("import signal\nsignal.raise_signal(signal.SIGTERM)\n")
    line = [sys.executable, "-c", LEAVING, what, str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, output, "")


def test_a_context_inside_of_another_leaves_what_the_other_needs() -> None:
    """Libraries log a signal that reaches them, also after the inner context has ended."""
    assert logging.lastResort is not None
    before = list(logging.lastResort.filters)
    with exceptions_for_signals():
        within = list(logging.lastResort.filters)
        with exceptions_for_signals(careful=True):
            pass
        assert logging.lastResort.filters == within != before
    assert logging.lastResort.filters == before
