"""`fedsgt certificate`: check and print certificates, with no run at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsgt.cli.commands.options import AsJson
from fedsgt.cli.views.certificate import certificate_text
from fedsgt.errors import InputError
from fedsgt.words import printable

if TYPE_CHECKING:  # other commands start without the cryptography
    from fedsgt.certificates.content import Certificate
    from fedsgt.certificates.keys import PublicKey

app = typer.Typer(help="Check or print the certificates of deletions.", no_args_is_help=True)

CertificateFile = Annotated[Path, typer.Argument(metavar="FILE", help="Certificate to print.")]


@app.command()
def verify(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Certificates to check.")],
    key: Annotated[Path, typer.Option(help="Public key of the signer, a PEM file.")],
    as_json: AsJson = False,
) -> None:
    """Check signatures offline: exit code 0 if all hold, 1 if one does not, 2 if a file cannot be checked."""
    from fedsgt.certificates.keys import PublicKey

    public = PublicKey.read(key)
    # All files are checked before anything is said: one bad file must not hide the others.
    results = [_checked(file, public) for file in files]
    if as_json:
        typer.echo(json.dumps([_as_json(*result) for result in results], indent=2))
    pages = [
        f"{file}: the signature holds\nkey            {public.id}\n{certificate_text(found)}"
        for file, found in results
        if not isinstance(found, InputError)
    ]
    if pages and not as_json:
        typer.echo("\n\n".join(pages))
    _leave([found for _, found in results if isinstance(found, InputError)])


@app.command()
def show(file: CertificateFile) -> None:
    """Print the content of a certificate WITHOUT checking its signature."""
    from fedsgt.certificates.signatures import read_certificate

    certificate = read_certificate(file, key=None)
    warning = f"{file}: NOT CHECKED. Anybody can write such a file; check it with fedsgt certificate verify."
    # The warning is repeated at the end, where it is seen after a long text.
    typer.echo(f"{warning}\n{certificate_text(certificate)}\n\n{warning}")


def _checked(file: Path, public: PublicKey) -> tuple[Path, Certificate | InputError]:
    from fedsgt.certificates.signatures import read_certificate

    try:
        return file, read_certificate(file, public)
    except InputError as error:
        return file, error


def _as_json(file: Path, found: Certificate | InputError) -> dict[str, Any]:
    wrong = isinstance(found, InputError)
    return {
        "file": str(file),
        "holds": not wrong,
        "error": str(found) if wrong else None,
        "certificate": None
        if isinstance(found, InputError)
        else found.model_dump(mode="json", exclude_unset=True),
    }


def _leave(errors: list[InputError]) -> None:
    """Print each error; exit with 1 if a signature does not hold, else with 2 if there is any error."""
    from fedsgt.certificates.signatures import BadSignature

    for error in errors:
        typer.echo(f"fedsgt: {printable(error)}", err=True)
    if errors:
        raise typer.Exit(1 if any(isinstance(error, BadSignature) for error in errors) else 2)
