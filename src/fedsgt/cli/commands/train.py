"""`fedsgt train`: from a configuration to trained modules in a run's folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsgt.cli.commands.options import Overrides, SystemName
from fedsgt.cli.signals import Terminated
from fedsgt.config import Config

if TYPE_CHECKING:
    from fedsgt.api.session import Session

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
    from fedsgt.api.train import config_to_train, default_runs

    chosen = [] if engine is None else [f"engine.name={engine}"]
    run = config_to_train(config, system, [*(overrides or ()), *chosen])
    train_and_tell(run, output or default_runs(run) / config.stem)


def train_and_tell(config: Config, path: Path, session: Session | None = None) -> None:
    """Train, with progress on standard error and a summary at the end."""
    use_profile()
    from fedsgt.api.session import Session
    from fedsgt.api.train import train_run, training_text
    from fedsgt.cli.views.training import training_view

    with stoppable(), training_view() as view:
        done = train_run(session or Session(), config, path, None, view)
    typer.echo(training_text(path, done))


@contextmanager
def stoppable() -> Iterator[None]:
    """Say at Ctrl-C and SIGTERM how to go on; nothing but the round under way is lost."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        typer.echo("fedsgt: stopped; the same command goes on after the last finished round", err=True)
        raise typer.Exit(stop.code if isinstance(stop, Terminated) else 130) from None


def use_profile() -> None:
    """Give this process the execution profile, so that no helper process is needed.

    Call it before anything may import torch, which reads its environment once.
    """
    from fedsgt.stack import profile

    os.environ.update(profile.environment())
