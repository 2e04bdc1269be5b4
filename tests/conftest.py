"""Settings and fixtures of all tests, and the table of results by folder that ends a run of several."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from fedsgt.stack import profile

if TYPE_CHECKING:
    from tiny_world import World

# Must come before the first import of torch, which reads these variables only once.
os.environ.update(profile.environment())

# Tests that are started in the background, or with nohup, ignore signals, and all processes that they start
# would inherit that, also those whose answer to a signal is tested.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

# In CI the same examples are tried each time, so that a failure there is never one of chance.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


_numbers = count(1)


@pytest.fixture(scope="session", autouse=True)
def state_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep high-water marks out of the user's home, also those that fixtures of whole modules make."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSGT_STATE", str(folder / "fixtures"))
        yield folder


@pytest.fixture(autouse=True)
def _own_state(state_folders: Path) -> Iterator[None]:
    """Give each test, and the processes that it starts, high-water marks of its own."""
    # Tests copy one trained run many times: to a test, the copy of another would be a newer state of its run.
    # Not the test's own `monkeypatch`, which some undo before they end.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSGT_STATE", str(state_folders / f"test-{next(_numbers)}"))
        yield


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return four clients with small images, and a tiny ViT."""
    from tiny_world import make_world

    return make_world(tmp_path_factory.mktemp("images"), "image")


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return four clients with short texts of different lengths, and a tiny BERT."""
    from tiny_world import make_world

    return make_world(tmp_path_factory.mktemp("texts"), "text")


OUTCOMES = ("passed", "failed", "skipped")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of tests passed, failed and skipped in each folder, if several took part.

    Under xdist this runs in the process that gathers the reports of all workers.
    """
    by_folder: dict[str, Counter[str]] = {}
    for outcome in (*OUTCOMES, "error"):
        for report in terminalreporter.getreports(outcome):
            parts = report.nodeid.split("::")[0].split("/")
            folder = "/".join(parts[: min(2, len(parts) - 1)])
            # A failing fixture is an error to pytest; to a reader the test failed.
            by_folder.setdefault(folder, Counter())["failed" if outcome == "error" else outcome] += 1
    if len(by_folder) > 1:
        terminalreporter.section("tests by folder")
        terminalreporter.line(f"{'':24}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES))
        for folder, counts in sorted(by_folder.items()):
            terminalreporter.line(f"{folder:24}" + "".join(f"{counts[outcome]:9}" for outcome in OUTCOMES))
