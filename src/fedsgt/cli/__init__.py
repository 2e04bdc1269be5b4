"""The `fedsgt` command: its subcommands, and how errors become messages and exit codes."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import click
import typer

import fedsgt

# Commands import what is slow to load when they run, so that every other command starts fast.
from fedsgt.cli.commands import (
    audit,
    certificate,
    client,
    clients,
    compare,
    config,
    copy,
    demo,
    evaluate,
    export,
    forgetting,
    heads,
    init,
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
from fedsgt.cli.signals import exceptions_for_signals
from fedsgt.errors import InputError
from fedsgt.words import printable

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
app.command("init")(init.init)
app.command("train")(train.train)
app.command("runs")(runs.runs)
app.command("show")(runs.show)
app.command("compare")(compare.compare)
app.command("evaluate")(evaluate.evaluate)
app.command("export")(export.export)
app.command("predict")(predict.predict)
app.command("clients")(clients.clients)
app.command("records")(records.records)
app.command("unlearn")(unlearn.unlearn)
app.command("retrain")(retrain.retrain)
app.command("rejoin")(retrain.rejoin)
app.command("heads")(heads.heads)
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


# Click's words for a text that should be a number.
NUMBERS = re.compile(r"is not a valid (?:(integer)|float)(?: range)?")


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


def main() -> NoReturn:
    """Run the command; wrong input is one line on standard error and exit code 2."""
    with exceptions_for_signals():
        code = _run()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:  # nobody reads any more; at Python's own end this would become another exit code
            _drop_output()
    sys.exit(code)


def _run() -> int:
    """Run the command and return its exit code, that of shells (128 and the number) if a signal ended it."""
    try:
        return _run_app()
    except (KeyboardInterrupt, click.Abort):
        return 128 + signal.SIGINT
    except SystemExit as end:
        # Click and rich exit with 1 where the reader has gone, which would be an answer of `fedsgt verify`.
        if not isinstance(end.__context__, BrokenPipeError):
            return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BrokenPipeError:
        pass
    _drop_output()
    return 128 + signal.SIGPIPE


def _run_app() -> int:
    try:
        # In standalone mode click would print errors in a form of its own.
        code = app(prog_name="fedsgt", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except InputError as error:
        return _fail(*error.lines())
    except click.exceptions.NoArgsIsHelpError as error:
        typer.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "fedsgt"
        message = NUMBERS.sub(_no_number, error.format_message())
        return _fail(f"{message}{'' if message.endswith(('.', '?')) else '.'} See {command} --help.")
    except OSError as error:  # such as a full disk, or a folder that may not be written to
        if isinstance(error, BrokenPipeError):
            raise
        return _fail(f"{error.filename or 'the system'}: {error.strerror or error}")
    except MemoryError:
        return _fail("there is not enough memory for a setting of this size")


def _drop_output() -> None:
    """Send the rest of the output nowhere: its reader is gone, and Python would complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # standard output of a test is no file
            os.dup2(nowhere, stream.fileno())


def _no_number(match: re.Match[str]) -> str:
    return "is no whole number" if match[1] else "is no number"


def _fail(message: str, *mistakes: str) -> int:
    # Names of files and keys may hold characters that would steer the terminal.
    for line in (f"fedsgt: {message}", *mistakes):
        typer.echo(printable(line), err=True)
    return 2
