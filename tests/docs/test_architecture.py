"""Check docs/architecture.md: its map is the package as it is, and its four walks are what really happens."""

from __future__ import annotations

import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pytest
from documents import ROOT
from tiny_world import World
from typer.testing import CliRunner

import fedsgt
from fedsgt.cli import app
from fedsgt.config import to_toml

PACKAGE = Path(fedsgt.__file__).parent
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
HEADING = re.compile(r"^### (.+): (\d+) hops in (\d+) files$", re.MULTILINE)
HOP = re.compile(r"^\d+\. `([\w.<>]+)`", re.MULTILINE)


def walks() -> dict[str, tuple[list[str], int, int]]:
    """Return the hops of each walk, and the numbers of hops and of files that its heading gives."""
    found = {}
    headings = list(HEADING.finditer(PAGE))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        text = PAGE[heading.end() : following.start() if following else None]
        found[heading[1]] = HOP.findall(text), int(heading[2]), int(heading[3])
    return found


def module_of(hop: str) -> str:
    """Return the longest part of a dotted name that is a file of the package."""
    parts = hop.split(".")
    for end in range(len(parts) - 1, 0, -1):
        place = PACKAGE.joinpath(*parts[:end])
        if place.with_suffix(".py").is_file() or (place / "__init__.py").is_file():
            return ".".join(parts[:end])
    raise AssertionError(f"{hop}: no such file")


@dataclass
class Trace:
    """Functions of the package that were entered, as `room.file.Class.function`."""

    entered: list[str] = field(default_factory=list)
    """All of them, in order."""
    calls: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a function and the nearest function of the package above it on the stack."""

    def note(self, frame: FrameType, event: str, _: object) -> None:
        name = name_of(frame)
        if event != "call" or name is None:
            return
        self.entered.append(name)
        above = frame.f_back
        while above is not None and name_of(above) is None:
            above = above.f_back
        if above is not None:
            self.calls.add((name_of(above) or "", name))


def name_of(frame: FrameType) -> str | None:
    """Return the name of a frame's function; None if it is not of the package, or a module's own code."""
    code, prefix = frame.f_code, f"{PACKAGE}/"
    if not code.co_filename.startswith(prefix) or code.co_name == "<module>":
        return None
    file = code.co_filename.removeprefix(prefix).removesuffix(".py").removesuffix("/__init__")
    return f"{file.replace('/', '.')}.{code.co_qualname}"


@contextmanager
def traced() -> Iterator[Trace]:
    """Note every function of the package that is entered meanwhile, in any thread."""
    trace = Trace()
    threading.setprofile(trace.note)
    sys.setprofile(trace.note)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def missing_hop(hops: list[str], entered: list[str]) -> str | None:
    """Return the first hop that was not entered after the one before it; None if all were."""
    rest = iter(entered)
    return next((hop for hop in hops if hop not in rest), None)


def invoke(line: str, **named: str) -> None:
    """Run a command in this process, as the trace needs it."""
    result = CliRunner().invoke(app, [part.format(**named) for part in shlex.split(line)])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, images: World) -> Path:
    """A folder with the configurations of a run by each engine."""
    place = tmp_path_factory.mktemp("walks")
    for engine in ("in-process", "flower"):
        config = images.config(f"engine.name={engine}", "peft.layers=1")
        (place / f"{engine}.toml").write_text(to_toml(config), encoding="utf-8")
    return place


def walk_a_record(folder: Path) -> None:
    invoke("train {folder}/in-process.toml -o {folder}/record", folder=str(folder))


def walk_a_message(folder: Path) -> None:
    invoke("train {folder}/flower.toml -o {folder}/message", folder=str(folder))


def walk_a_prediction(folder: Path) -> None:
    invoke("predict {folder}/record --test", folder=str(folder))


def walk_a_deletion(folder: Path) -> None:
    (folder / "ids").write_text("r000\n", encoding="utf-8")
    invoke("unlearn {folder}/record --client c0 --records {folder}/ids", folder=str(folder))


# In an order in which each finds what it needs: the deletion comes last.
WALKS: dict[str, Callable[[Path], None]] = {
    "A record": walk_a_record,
    "A Flower message": walk_a_message,
    "A prediction": walk_a_prediction,
    "A deletion": walk_a_deletion,
}


def test_the_page_has_the_four_walks() -> None:
    assert set(walks()) == set(WALKS)


@pytest.fixture(scope="module")
def traces(folder: Path) -> dict[str, Trace]:
    """Carry out each walk once."""
    found = {}
    for name, walk in WALKS.items():
        with traced() as found[name]:
            walk(folder)
    return found


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_goes_as_the_page_says(name: str, traces: dict[str, Trace]) -> None:
    hops, _, _ = walks()[name]
    assert missing_hop(hops, traces[name].entered) is None


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_climbs_back_into_a_higher_room_only_where_the_page_says(
    name: str, traces: dict[str, Trace]
) -> None:
    rooms = re.findall(r"^\| `(\w+)` \| ", PAGE.partition("## The rooms")[2], re.MULTILINE)
    climbs = [
        (caller, called)
        for caller, called in sorted(traces[name].calls)
        if is_above(rooms, caller, called) and not called.endswith(("<genexpr>", "<lambda>"))
    ]
    listed = re.findall(r"^- `([\w.]+)`", PAGE.partition("## Four walks")[2], re.MULTILINE)
    assert [climb for climb in climbs if not climb[1].startswith(tuple(listed))] == []


def is_above(rooms: list[str], caller: str, called: str) -> bool:
    """Whether the called function is in a room further down the map, which may import the caller's."""
    places = [name.partition(".")[0] for name in (caller, called)]
    return set(places) <= set(rooms) and rooms.index(places[1]) > rooms.index(places[0])


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_is_as_long_as_its_heading_says(name: str) -> None:
    hops, count, files = walks()[name]
    assert (len(hops), len({module_of(hop) for hop in hops})) == (count, files)
