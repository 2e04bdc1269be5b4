"""The `fedsgt` command: its subcommands, and how errors become messages and exit codes."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import click
import typer

import fedsgt

# Commands import what is slow to load when they run, so that every other command starts fast.
from fedsgt.cli.commands import (
    audit,
    certificate,
    client,
    config,
    copy,
    demo,
    evaluate,
    export,
    forgetting,
    keys,
    plan,
    predict,
    records,
    replay,
    report,
    retrain,
    runs,
    server,
    status,
    train,
    unlearn,
    verify,
    withdraw,
)
from fedsgt.errors import InputError

app = typer.Typer(
    name="fedsgt",
    help="Exact federated unlearning: plan, train, forget, prove.",
    no_args_is_help=True,
    add_completion=False,
    # Click names the nearest commands already; typer would name them a second time.
    suggest_commands=False,
    rich_markup_mode="rich",
    # Such tracebacks may show local variables, and these may hold records.
    pretty_exceptions_enable=False,
)
app.add_typer(config.app, name="config")
app.command("plan")(plan.plan)
app.command("demo")(demo.demo)
app.command("init")(train.init)
app.command("train")(train.train)
app.command("runs")(runs.runs)
app.command("show")(runs.show)
app.command("evaluate")(evaluate.evaluate)
app.command("export")(export.export)
app.command("predict")(predict.predict)
app.command("records")(records.records)
app.command("unlearn")(unlearn.unlearn)
app.command("retrain")(retrain.retrain)
app.command("rejoin")(retrain.rejoin)
app.command("copy")(copy.copy)
app.command("replay")(replay.replay)
app.command("status")(status.status)
app.command("audit")(audit.audit)
app.command("verify")(verify.verify)
app.command("forgetting")(forgetting.forgetting)
app.command("report")(report.report)
app.add_typer(certificate.app, name="certificate")
app.command("keys")(keys.keys)
app.command("server")(server.server)
app.command("client")(client.client)
app.command("withdraw")(withdraw.withdraw)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedsgt {fedsgt.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Exact federated unlearning: plan, train, forget, prove."""


def main() -> None:
    """Run the command; wrong input is one line on standard error and exit code 2."""
    try:
        # In standalone mode click would print errors in a form of its own.
        code = app(standalone_mode=False)
    except InputError as error:
        _fail(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        typer.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "fedsgt"
        _fail(f"{error.format_message()} See {command} --help.")
    except OSError as error:  # such as a full disk, or a folder that may not be written to
        _fail(f"{error.filename or 'the system'}: {error.strerror or error}")
    except MemoryError:
        _fail("there is not enough memory for a setting of this size")
    except click.Abort:
        sys.exit(130)  # as shells count a Ctrl-C: 128 and the number of SIGINT
    sys.exit(code)


def _fail(message: str) -> NoReturn:
    typer.echo(f"fedsgt: {message}", err=True)
    sys.exit(2)
