"""`fedsgt init` and `fedsgt train`: from a configuration to trained modules in a run's folder."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import fedsgt
from fedsgt.cli.commands.options import Overrides, SystemName, load_run
from fedsgt.config import Config
from fedsgt.errors import InputError
from fedsgt.words import counted

if TYPE_CHECKING:
    from fedsgt.engine.events import Listener
    from fedsgt.runs.folder import RunFolder

STARTER = Path(fedsgt.__file__).parent / "assets" / "demo.toml"
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="RUN", help="Folder of the run (default: runs/NAME)."),
]


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="TOML file of the run.")],
    output: Output = None,
    engine: Annotated[
        str | None,
        typer.Option(help="Engine that carries out the training: in-process, flower or flower-sim."),
    ] = None,
    system: SystemName = None,
    overrides: Overrides = None,
) -> None:
    """Train the modules that the plan wants and the run lacks; after a stop, the same command continues."""
    chosen = [] if engine is None else [f"engine.name={engine}"]
    run = load_run(config, system, [*(overrides or ()), *chosen])
    train_run(run, output or _runs(run) / config.stem)


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write the starter configuration to.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a commented starter configuration: the example that `fedsgt demo` trains."""
    if file.exists() and not force:
        raise InputError(f"{file}: is there already; give another name, or --force to write over it")
    try:
        file.write_text(STARTER.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from None
    typer.echo(f"Wrote {file}. Next: fedsgt train {file}")


def train_run(run: Config, path: Path) -> None:
    """Train, with progress on standard error and a summary at the end."""
    from fedsgt.cli.views.training import training_view

    started = time.monotonic()  # the clock of the day may be set while training
    with stoppable(), training_view() as view:
        folder = (train_remote if run.data.partition == "remote" else train_here)(run, path, view)
    trained = view.tally.modules
    total = len(folder.description.modules)
    typer.echo(
        f"{path}: {counted(total, 'module')} of {counted(len(folder.description.sequences), 'sequence')}; "
        f"{trained} trained now, in {time.monotonic() - started:.0f} s"
    )
    dead = len(folder.live().dead_modules())
    if dead:
        typer.echo(
            f"{counted(dead, 'module')} given up: deletions came in; fedsgt retrain {path} trains them"
        )


def _runs(run: Config) -> Path:
    """Return the folder of runs: with remote clients, the one in which the server's desk looks for them."""
    if run.data.partition != "remote":
        return Path("runs")
    from fedsgt.federation.settings import server_of

    return server_of(run).runs


def train_here(run: Config, path: Path, tell: Listener) -> RunFolder:
    """Train in this process and its workers."""
    ready_to_train()
    from fedsgt.build.train import train as build_run
    from fedsgt.unlearning.recovery import recover

    # Requests that were cut short are finished first: what they hit must not be trained on.
    return build_run(run, path, tell, recover)


def train_remote(run: Config, path: Path, tell: Listener) -> RunFolder:
    """Train with remote clients, through the server that they are connected to."""
    from fedsgt.files.optional import check_flower

    if run.engine.name != "flower":
        raise InputError("data.partition is remote: the clients are reached with --engine flower only")
    check_flower()
    from fedsgt.federation.server.tasks import train_remotely

    return train_remotely(run, path, tell)


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn Ctrl-C into a message and exit code 130; nothing but the round under way is lost."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("fedsgt: stopped; the same command goes on after the last finished round", err=True)
        raise typer.Exit(130) from None


def ready_to_train() -> None:
    """Check that torch is installed and set its environment; call this before torch is imported.

    The environment makes this process train and predict as worker processes do, bit for bit.
    """
    # Found, not imported: its environment must be set before that.
    if importlib.util.find_spec("torch") is None:
        raise InputError("this command needs torch and transformers: pip install 'fedsgt[train]'")
    set_profile()


def set_profile() -> None:
    """Set the environment of torch, for commands that use it only if it is installed."""
    from fedsgt.stack import profile

    os.environ.update(profile.environment())
