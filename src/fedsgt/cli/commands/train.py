"""`fedsgt train`, `fedsgt init`: from a configuration to trained modules in a run's folder."""

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
    typer.Option("-o", "--output", metavar="RUN", help="Folder of the run; runs/NAME without it."),
]


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="TOML file of the run.")],
    output: Output = None,
    engine: Annotated[
        str | None, typer.Option(help="What carries the training out: in-process, flower or flower-sim.")
    ] = None,
    system: SystemName = None,
    overrides: Overrides = None,
) -> None:
    """Train the modules that the plan wants and the run lacks; the same command goes on after any stop."""
    chosen = [] if engine is None else [f"engine.name={engine}"]
    run = load_run(config, system, [*(overrides or ()), *chosen])
    train_run(run, output or _runs(run) / config.stem)


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the starter configuration.")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a commented starter configuration: the embedded default, which `fedsgt demo` runs."""
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

    started = time.monotonic()
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
    """Where runs lie if nothing is said; those of remote clients where their server's desk finds them."""
    if run.data.partition != "remote":
        return Path("runs")
    from fedsgt.federation.settings import server_of

    return server_of(run).runs


def train_here(run: Config, path: Path, tell: Listener) -> RunFolder:
    ready_to_train()
    from fedsgt.build.train import train as build_run
    from fedsgt.unlearning.unlearn import recover

    return build_run(run, path, tell, recover)


def train_remote(run: Config, path: Path, tell: Listener) -> RunFolder:
    """The clients hold their records themselves: the server that they are connected to does it."""
    from fedsgt.files.optional import check_flower

    if run.engine.name != "flower":
        raise InputError("data.partition is remote: the clients are reached with --engine flower only")
    check_flower()
    from fedsgt.federation.server.tasks import train_remotely

    return train_remotely(run, path, tell)


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C loses nothing but the round under way."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("fedsgt: stopped; the same command goes on after the last finished round", err=True)
        raise typer.Exit(130) from None


def ready_to_train() -> None:
    """Called before torch is imported, so that this process trains and predicts as worker processes do."""
    if importlib.util.find_spec("torch") is None:
        raise InputError("this command needs torch and transformers: pip install 'fedsgt[train]'")
    set_profile()


def set_profile() -> None:
    """For commands that use torch only if it is there."""
    from fedsgt.stack import profile

    os.environ.update(profile.environment())
