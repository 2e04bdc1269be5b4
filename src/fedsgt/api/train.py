"""Training from Python: `fedsgt.train`, and the training of a run that is there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fedsgt.config import Config, load, system_settings
from fedsgt.engine.events import Event, Listener
from fedsgt.engine.tally import Tally, print_lines
from fedsgt.errors import InputError
from fedsgt.plans.scoring.whole_clients import whole_clients_words
from fedsgt.plans.statistics_cost import passes_words
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.api.run import Run
    from fedsgt.api.session import Session
    from fedsgt.data.sources.memory import GivenRecords

AnyPath: TypeAlias = str | PathLike[str]
AnyConfig: TypeAlias = AnyPath | Config | Mapping[str, Any]
"""Path of a TOML file, a configuration, or a dict of sections."""
TrainingProgress: TypeAlias = bool | Callable[[Event], None] | None
"""True prints lines on standard error, a function gets every event, False is silent.

None prints where a person looks: on a terminal or in a notebook.
"""


@dataclass(frozen=True)
class Training:
    """Result of a training."""

    modules: int
    """Number of modules that the plan wants."""
    sequences: int
    trained: int
    """Number of modules that were trained now."""
    dead: int
    """Number of modules that were given up, since deletions came in meanwhile."""
    seconds: float
    clients: int
    """Number of clients with records."""
    statistics: int
    """Number of statistics that were made now, from which heads are solved."""
    forward_passes: float
    """Forward passes over the data that all statistics of the plan cost; 0 if the run solves no heads."""
    clients_withstood: float
    """Expected clients that leave whole, one after another, until nothing is live; the last is counted."""

    def to_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        return asdict(self)


def train(
    config: AnyConfig,
    output: AnyPath | None = None,
    *,
    data: Any = None,
    system: str | None = None,
    overrides: Sequence[str] = (),
    progress: TrainingProgress = None,
) -> Run:
    """Train the modules that the configuration's plan wants and the run lacks, and return the run.

    `config` is a path, a `Config` or a dict; `output` is the run's folder, by default runs/NAME for a file
    NAME.toml. `data` has records in memory, in place of `data.source`: a pandas DataFrame, a pyarrow Table, a
    datasets.Dataset or a list of dicts, or a dict of these with the parts train and test. Such records are
    kept in the run's folder. `system` names a compared system, whose settings override the configuration;
    `overrides` has single settings, such as "grouping.groups=6", which come last. After a stop, the same call
    continues where it was.
    """
    from fedsgt.api.run import open_run
    from fedsgt.api.session import Session

    settings = config_to_train(config, system, overrides)
    path = _output(config, settings, output)
    if data is None:
        settings = _with_own_records(settings, path)
    settings, given = with_given(settings, data)
    session = Session()
    training = train_run(session, settings, path, given, progress)
    return open_run(path, session=session, training=training)


def with_given(config: Config, data: Any) -> tuple[Config, GivenRecords | None]:
    """Return the configuration and the tables of records in memory; as it is, and None, without any."""
    if data is None:
        return config, None
    from fedsgt.data.sources.memory import given_records
    from fedsgt.runs.kept_records import IN_RUN
    from fedsgt.runs.records import columns_of

    given = given_records(data, columns_of(config), config.model.task)
    kept = config.data.model_copy(update={"source": IN_RUN, "test": None})
    return config.model_copy(update={"data": kept}), given


def _with_own_records(config: Config, path: Path) -> Config:
    """Return the settings that continue a run in this folder which keeps records that were given before."""
    from fedsgt.runs.kept_records import IN_RUN

    try:
        stored = load(path / "run.toml")
    except InputError:  # there is no run yet, or none that can be opened, which is told later
        return config
    if stored.data.source != IN_RUN:
        return config
    kept = config.data.model_copy(update={"source": IN_RUN, "test": None})
    return config.model_copy(update={"data": kept})


def config_to_train(config: AnyConfig, system: str | None = None, overrides: Sequence[str] = ()) -> Config:
    """Return the configuration; one error tells all mistakes, also those of data and model."""
    from fedsgt.build.precheck import all_at_once

    with all_at_once():
        return read_config(config, system, overrides)


def read_config(config: AnyConfig, system: str | None = None, overrides: Sequence[str] = ()) -> Config:
    """Return the configuration, with a system's settings and single overrides on top."""
    if isinstance(overrides, str) or not all(isinstance(one, str) for one in overrides):
        raise InputError('overrides: give a list of texts, such as ["grouping.groups=6"]')
    if isinstance(config, Mapping) and not all(isinstance(name, str) for name in config):
        raise InputError("config: a dict of sections has texts as keys, such as grouping")
    values: Path | Mapping[str, Any]
    if isinstance(config, Config):
        if system is None and not overrides:
            return config
        values = config.model_dump(mode="python", exclude_none=True)
    elif isinstance(config, Mapping):
        values = config
    elif isinstance(config, str | PathLike):
        values = Path(fspath(config))
    else:
        raise InputError(
            f"config is of type {type(config).__name__}; allowed: a TOML file's path, a fedsgt.Config, a dict"
        )
    return load(values, [*system_settings(system), *overrides])


def train_run(
    session: Session,
    config: Config,
    path: Path,
    given: GivenRecords | None = None,
    progress: TrainingProgress = None,
) -> Training:
    """Train the run in this folder, here or with remote clients, and tell what was done."""
    from fedsgt.api import tasks
    from fedsgt.build.precheck import precheck
    from fedsgt.reporting.costs import statistics_cost
    from fedsgt.runs.folder import open_run
    from fedsgt.runs.records_left import whole_clients_withstood

    precheck(config, path)  # mistakes are told before torch is imported
    tally, started = Tally(), time.monotonic()  # the clock of the day may be set while training
    tell = _both(tally, listener_of(progress))
    if config.data.partition == "remote":
        _train_remotely(config, path, tell)
    else:
        session.call(tasks.train, config, path, given, tell=tell)
    folder = open_run(path)
    live = folder.live()
    cost = statistics_cost(folder.config, live.description)
    withstood, clients = whole_clients_withstood(live)
    return Training(
        modules=len(live.description.modules),
        sequences=len(live.description.sequences),
        trained=tally.modules,
        dead=len(live.dead_modules()),
        seconds=time.monotonic() - started,
        clients=clients,
        statistics=tally.statistics,
        forward_passes=0.0 if cost is None else cost.forward_passes,
        clients_withstood=float(withstood),
    )


def listener_of(progress: TrainingProgress) -> Listener:
    """Return the function that is told the events of a training."""
    if callable(progress):
        return progress
    shown = is_watched() if progress is None else progress
    if not shown:
        return lambda event: None
    return print_lines(Tally(), lambda line: print(line, file=sys.stderr, flush=True))


def _both(tally: Tally, other: Listener) -> Listener:
    def tell(event: Event) -> None:
        tally(event)
        other(event)

    return tell


def is_watched() -> bool:
    """Whether somebody sees standard error: on a terminal, or below a cell of a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _train_remotely(config: Config, path: Path, tell: Listener) -> None:
    from fedsgt.files.optional import check_flower

    if config.engine.name != "flower":
        raise InputError(
            'data.partition is remote: the clients are reached with engine.name = "flower" only '
            "(--engine flower)"
        )
    check_flower()
    from fedsgt.federation.server.tasks import train_remotely

    train_remotely(config, path, tell)


def _output(config: AnyConfig, settings: Config, output: AnyPath | None) -> Path:
    """Return the absolute path of the run's folder."""
    if output is not None:
        return given_path(output, "output")
    if isinstance(config, Config | Mapping):
        raise InputError("output: not given; name the run's folder, such as runs/my")
    return (default_runs(settings) / Path(fspath(config)).stem).absolute()


def default_runs(config: Config) -> Path:
    """Return the folder of runs: with remote clients, the one in which the server's desk looks for them."""
    if config.data.partition != "remote":
        return Path("runs")
    from fedsgt.federation.settings import server_of

    return server_of(config).runs


def given_path(path: AnyPath, name: str) -> Path:
    """Return a path that somebody gave, in full; anything else is an `InputError` that names it."""
    if not isinstance(path, str | PathLike):
        raise InputError(
            f"{name} is of type {type(path).__name__}; allowed: a path, as a text or a pathlib.Path"
        )
    if not fspath(path):
        raise InputError(f"{name} is empty; allowed: a path")
    try:
        return Path(fspath(path)).expanduser().absolute()
    except RuntimeError:  # ~somebody who has no home here
        return Path(fspath(path)).absolute()


def training_text(path: AnyPath, found: Training) -> str:
    """Return the result of a training in words."""
    if not found.modules:
        return "\n".join(
            [f"{path}: the plan has no modules, so nothing is to be trained", *_statistics(found)]
        )
    lines = [
        f"{path}: {counted(found.modules, 'module')} of {counted(found.sequences, 'sequence')}; "
        f"{found.trained} trained now, in {found.seconds:.0f} s; "
        f"{whole_clients_words(found.clients_withstood, found.clients)}"
    ]
    lines += _statistics(found)
    if found.dead:
        lines.append(
            f"{counted(found.dead, 'module')} given up: deletions came in; fedsgt retrain {path} trains them"
        )
    return "\n".join(lines)


def _statistics(found: Training) -> list[str]:
    """Return a line on the statistics that were made, if any were; their cost is that of a whole training."""
    if not found.statistics:
        return []
    return [
        f"{counted(found.statistics, 'statistic')} made now, from which heads are solved; making all "
        f"those of the plan costs {passes_words(found.forward_passes)}"
    ]
