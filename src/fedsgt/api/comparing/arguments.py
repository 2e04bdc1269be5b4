"""Arguments of a comparison: read, checked, and told what is wrong all at once, before any training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsgt.api.comparing.folder import ComparisonFolder
from fedsgt.api.comparing.requests import AnyStream, Request, check_stream, make_stream
from fedsgt.api.comparing.systems import (
    DEALING,
    AnySystems,
    ComparedSystem,
    check_configs,
    config_for,
    read_systems,
)
from fedsgt.api.train import AnyConfig, AnyPath, given_path, with_given
from fedsgt.config import Config
from fedsgt.errors import InputError
from fedsgt.runs.records import ClientData, deal_given, load_clients, load_test

if TYPE_CHECKING:
    from fedsgt.data.sources.memory import GivenRecords

MOST_REQUESTS = 100_000  # far above any use: a digit too many is an error at once


@dataclass(frozen=True)
class Arguments:
    """Checked arguments of a comparison."""

    config: AnyConfig
    overrides: tuple[str, ...]
    systems: tuple[ComparedSystem, ...]
    stream: AnyStream = field(repr=False)
    requests: int
    seeds: tuple[int, ...]
    data: Mapping[str, Any] | None = field(repr=False)
    """Tables of the records, if they were given in memory."""
    output: Path | None
    """Folder to keep it in; None if it is not to be kept."""

    @property
    def stream_name(self) -> str:
        """Kind of the stream, or that it was given."""
        return self.stream if isinstance(self.stream, str) else "given"

    def settings(self, system: ComparedSystem | None, seed: int) -> Config:
        """Return the configuration of a system and seed; without a system, the common one."""
        return config_for(self.config, self.overrides, system, seed)

    def for_run(self, system: ComparedSystem, seed: int) -> tuple[Config, GivenRecords | None]:
        """Return what the run of a system and seed is trained with."""
        return with_given(self.settings(system, seed), self.data)


@dataclass(frozen=True)
class SeedData:
    """Requests of one seed, and the records that they are about."""

    requests: tuple[Request, ...] = field(repr=False)
    owners: Mapping[str, Mapping[str, str] | None] = field(repr=False)
    """Owner of each record by label of the system; None if the clients are the common ones."""
    records: int
    """Number of records to train on."""
    tests: int


def read_arguments(
    config: AnyConfig,
    systems: AnySystems,
    stream: AnyStream,
    requests: int,
    seeds: int | Sequence[int],
    output: AnyPath | None,
    data: Any,
    overrides: Sequence[str],
) -> Arguments:
    """Return the arguments; one error tells all that is wrong with them."""
    chosen, mistakes = read_systems(systems)
    mistakes += check_stream(stream)
    if type(requests) is not int or not 1 <= requests <= MOST_REQUESTS:
        mistakes.append(f"requests is {requests!r}; allowed: a whole number from 1 to {MOST_REQUESTS}")
    numbers = _seeds(seeds)
    if not numbers:
        mistakes.append(
            f"seeds is {seeds!r}; allowed: a whole number from 1 on, or a list of different ones from 0 on"
        )
    if isinstance(overrides, str) or not all(isinstance(one, str) for one in overrides):
        mistakes.append(f"overrides: {overrides!r} is no list of settings such as ['plan.kind=tree']")
    else:
        mistakes += check_configs(config, overrides, chosen, numbers[0] if numbers else 0)
    kept = None
    try:
        if output is not None:
            kept = given_path(output, "output")
            ComparisonFolder(kept).check()
    except InputError as error:
        mistakes.append(str(error))
    if mistakes:
        raise InputError.of("", mistakes)
    given = with_given(config_for(config, overrides, None, numbers[0]), data)[1]
    # Images are encoded once, not for each run.
    tables = None if given is None else {"train": given.train}
    if tables is not None and given is not None and given.test is not None:
        tables["test"] = given.test
    return Arguments(config, tuple(overrides), tuple(chosen), stream, requests, tuple(numbers), tables, kept)


def _seeds(seeds: Any) -> list[int]:
    """Return the seeds; none if they are not right."""
    if type(seeds) is int:
        return list(range(seeds))
    if isinstance(seeds, str) or not isinstance(seeds, Sequence):
        return []
    numbers = list(seeds)
    right = all(type(one) is int and one >= 0 for one in numbers) and len(set(numbers)) == len(numbers)
    return numbers if right else []


def seed_data(arguments: Arguments, seed: int) -> SeedData:
    """Read the records of a seed, and draw its requests."""
    common = arguments.settings(None, seed)
    clients = _load(common, arguments.data)
    try:
        requests = make_stream(arguments.stream, clients.local, arguments.requests, seed)
    except InputError as error:
        raise InputError(f"seed {seed}: {error}" if len(arguments.seeds) > 1 else str(error)) from None
    owners: dict[str, Mapping[str, str] | None] = {}
    for system in arguments.systems:
        own = arguments.settings(system, seed)
        same = own.data.model_dump(include=DEALING) == common.data.model_dump(include=DEALING)
        owners[system.label] = None if same else _owners(_load(own, arguments.data))
    tests = clients.given_test
    if tests is None:
        tests = load_test(common, clients.labels).records
    records = sum(len(client.records) for client in clients.local)
    return SeedData(tuple(requests), owners, records, len(tests))


def _load(config: Config, data: Mapping[str, Any] | None) -> ClientData:
    settings, given = with_given(config, data)
    return load_clients(settings) if given is None else deal_given(settings, given)


def _owners(clients: ClientData) -> dict[str, str]:
    return {record.id: client.name for client in clients.local for record in client.records}
