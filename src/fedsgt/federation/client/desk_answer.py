"""Exchange of a client with the desk: a signed request, and a final decision or none yet."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedsgt.certificates.signatures import parse_certificate, split_envelope
from fedsgt.errors import InputError
from fedsgt.federation.settings import ClientSettings
from fedsgt.federation.signed_request import Envelope
from fedsgt.words import LONGEST_MESSAGE, one_line, printable

# The server answers only after it has destroyed what the request hit, which may take minutes.
TIMEOUT = httpx.Timeout(300, connect=10)


class Unanswered(Exception):
    """The desk has not decided; the same request may be sent again."""


class Granted(BaseModel):
    """Result of an accepted request."""

    model_config = ConfigDict(frozen=True, strict=True)

    position: int
    time: str
    records: int
    groups: list[int]
    modules_died: int
    pending: str | None = None
    """Set while the server has not completed the deletion, which is in force; the certificate comes later."""
    certificate: dict[str, Any] | None = Field(repr=False)


@dataclass(frozen=True)
class Denied:
    """Refusal of a request, and why."""

    reason: str
    message: str


def ask(settings: ClientSettings, envelope: Envelope) -> Granted | Denied:
    """Return the desk's decision on a request; if it was sent before, the first decision."""
    status, told = _post(settings, envelope)
    given = told if status == 200 else told.get("first")
    if given is not None:
        return _granted(settings, envelope, given)
    reason = told.get("error")
    # An error of the server is no decision: the request may still be carried out later.
    if status >= 500 or not isinstance(reason, str):
        said = printable(told.get("message", ""), LONGEST_MESSAGE)
        raise Unanswered(
            f"the desk at {settings.desk} could not answer (HTTP {status})" + (f": {said}" if said else "")
        )
    if reason == "replayed":
        # The desk repeats its answer to the very same text only: another request has used this nonce.
        return Denied(reason, "another request was made under its number; ask anew")
    return Denied(reason, printable(told.get("message"), LONGEST_MESSAGE))


def _post(settings: ClientSettings, envelope: Envelope) -> tuple[int, dict[str, Any]]:
    try:
        # Only this authority is trusted, and no proxy is used: nobody else can read the request or answer.
        trusted = ssl.create_default_context(cafile=settings.ca)
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{settings.ca}: not a certificate to know the desk by ({why})") from None
    try:
        with httpx.Client(verify=trusted, trust_env=False, timeout=TIMEOUT) as client:
            response = client.post(f"https://{settings.desk}/v1/requests", json=envelope)
    except httpx.TransportError as error:
        why = printable(one_line(error), LONGEST_MESSAGE)
        raise Unanswered(f"the desk at {settings.desk} cannot be reached ({why})") from None
    try:
        told = json.loads(response.content)
    except ValueError:
        told = None
    return response.status_code, told if isinstance(told, dict) else {}


def _granted(settings: ClientSettings, envelope: Envelope, given: object) -> Granted:
    """Return the answer if its certificate is for this request; the signature is not checked here."""
    body = envelope["body"]
    try:
        granted = Granted.model_validate(given)
        if granted.certificate is None and granted.pending is not None:
            return granted
        certificate = parse_certificate(split_envelope(granted.certificate)[0])
    except (ValidationError, InputError):
        raise Unanswered(f"the desk at {settings.desk} answered without a certificate") from None
    clients = {part.client for part in certificate.request.parts}
    named = certificate.run, certificate.request.position
    if named != (body["run"], granted.position) or body["client_hash"] not in clients:
        raise Unanswered(f"the desk at {settings.desk} answered with the certificate of another request")
    return granted
