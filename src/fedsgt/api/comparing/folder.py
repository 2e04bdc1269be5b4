"""Folder of a comparison: what is compared, the results so far, and a run for each system and seed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedsgt.api.comparing.requests import Request
from fedsgt.api.results.comparison import Point
from fedsgt.config import Config
from fedsgt.errors import InputError
from fedsgt.files.durable import make_folder, replace_file, sync_folder
from fedsgt.files.encoding import canonical_json
from fedsgt.files.formats import check_format
from fedsgt.files.locks import Busy, only_holder
from fedsgt.runs.folder import anchored

FORMAT = 1
SETTINGS, RESULTS, RUNS, LOCK = "comparison.json", "results.jsonl", "runs", "lock"


@dataclass(frozen=True)
class Compared:
    """Arguments of a comparison, as its folder keeps them to tell whether another call goes on with it."""

    systems: dict[str, Any]
    """Settings of each system, but for the seeds and for how the work is carried out."""
    stream: str
    requests: int
    seeds: list[int]
    drawn: dict[str, str]
    """Hash of the requests of each seed; ids of records are kept nowhere outside of the runs."""

    @classmethod
    def of(
        cls,
        configs: Mapping[str, Config],
        stream: str,
        requests: int,
        drawn: Mapping[int, Sequence[Request]],
    ) -> Compared:
        """Note what is compared: a configuration for each label, and the requests of each seed."""
        systems = {label: _settings(config) for label, config in configs.items()}
        hashes = {str(seed): _hash(found) for seed, found in drawn.items()}
        return cls(systems, stream, requests, list(drawn), hashes)

    def differences(self, known: Compared) -> list[str]:
        """Return each argument that is another one than that of a known comparison."""
        found = [
            f"{name} is {getattr(self, name)!r}, and was {getattr(known, name)!r}"
            for name in ("stream", "requests", "seeds")
            if getattr(self, name) != getattr(known, name)
        ]
        if list(self.systems) != list(known.systems):
            found.append(f"systems are {', '.join(self.systems)}, and were {', '.join(known.systems)}")
        else:
            for label, settings in self.systems.items():
                found += [f"{label}: {text}" for text in _changed(settings, known.systems[label])]
        if not found and self.drawn != known.drawn:
            found.append("the records or the requests are others")
        return found


def _settings(config: Config) -> dict[str, Any]:
    values: dict[str, Any] = anchored(config).model_dump(mode="json", exclude={"engine"})
    for section in ("data", "grouping", "training"):
        del values[section]["seed"]
    return values


def _changed(now: dict[str, Any], was: dict[str, Any]) -> Iterator[str]:
    for section, values in now.items():
        for key, value in values.items():
            before = was.get(section, {}).get(key)
            if value != before:
                yield f"{section}.{key} is {value!r}, and was {before!r}"


def _hash(requests: Sequence[Request]) -> str:
    return hashlib.sha256(canonical_json([asdict(request) for request in requests]).encode()).hexdigest()


class ComparisonFolder:
    """A folder that is held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.points: list[Point] = []
        """Results so far; those of a system and seed are in the order of the requests."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder if it is missing, and hold it."""
        self.check()
        make_folder(self.path)
        with ExitStack() as opened:
            try:
                opened.enter_context(only_holder(self.path / LOCK, self.path))
            except Busy:
                raise Busy(
                    f"{self.path}: another process is working on this comparison; wait for it"
                ) from None
            yield

    def check(self) -> None:
        """Raise if a comparison can neither begin nor go on here."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise InputError(f"{self.path}: no folder; give another output")
        others = {one.name for one in self.path.iterdir()} - {LOCK}
        if others and SETTINGS not in others:
            raise InputError(f"{self.path}: holds other things than a comparison; give another output folder")

    @property
    def begun(self) -> bool:
        """Whether it holds a comparison already."""
        return (self.path / SETTINGS).exists()

    def begin(self, compared: Compared) -> None:
        """Note what is compared, or go on with a comparison of the same; another one is refused."""
        place = self.path / SETTINGS
        if self.begun:
            differences = compared.differences(_read_settings(place))
            if differences:
                raise InputError.of(
                    f"{self.path}: holds another comparison; give another output folder; nothing was changed",
                    differences,
                )
            self._read_points()
            return
        text = json.dumps({"format": FORMAT, **asdict(compared)}, indent=1) + "\n"
        replace_file(place, text.encode())
        sync_folder(self.path)

    def run(self, label: str, seed: int) -> Path:
        """Return the folder of the run of a system and seed."""
        return self.path / RUNS / label / f"seed-{seed}"

    def points_of(self, label: str, seed: int) -> list[Point]:
        """Return the results of a system and seed so far."""
        return [point for point in self.points if (point.system, point.seed) == (label, seed)]

    def add(self, point: Point) -> None:
        """Append a result, on disk when this returns."""
        with (self.path / RESULTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(point.to_json()) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.points.append(point)

    def _read_points(self) -> None:
        place = self.path / RESULTS
        if not place.exists():
            return
        # A line that a kill cut short has no end; its request is repeated, and answered as the first time.
        whole = place.read_bytes().rpartition(b"\n")[0].split(b"\n")
        try:
            self.points = [Point.from_json(json.loads(line)) for line in whole if line]
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{place}: not the results of a comparison; restore it from a backup") from None
        replace_file(place, b"".join(line + b"\n" for line in whole if line))


def _read_settings(place: Path) -> Compared:
    try:
        values = json.loads(place.read_text(encoding="utf-8"))
        check_format(values, FORMAT, place)
        values.pop("format")
        return Compared(**values)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{place}: not what a comparison is of; give another output folder") from None
