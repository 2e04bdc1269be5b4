"""A client's signed request to delete some of its own data from a run, which nobody else can make.

It names slices and salted hashes, never a record. The signature is the node key's over the canonical form
(RFC 8785) of the body, which names the run, the client and a number that is used once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedsgt.certificates.content import Count, Hash
from fedsgt.data import Client, client_hash
from fedsgt.errors import InputError
from fedsgt.federation.keys import check_signature, sign_bytes
from fedsgt.files.encoding import frames, signed_json
from fedsgt.runs.records_left import records_left
from fedsgt.runs.state import DeletedData, Live
from fedsgt.unlearning.request import DeletionPart, Scope
from fedsgt.words import counted

# Every signed text begins with this: the node key signs other texts for Flower, and none of them may pass for
# a request.
DOMAIN = b"fedsgt.petition.1\n"
# With 66 bytes a hash, this stays below the 1 MB that the desk reads of one request.
MOST_RECORDS = 10_000

Envelope = dict[str, Any]
Number = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Reason = Literal[
    "malformed",
    "too-large",
    "unknown-run",
    "unknown-client",
    "not-remote",
    "forged",
    "replayed",
    "out-of-range",
    "too-many",
    "already-deleted",
    "nothing-left",
]


class RequestRefused(InputError):
    """A request that is not carried out; the message says why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


class RequestBody(BaseModel):
    """Content of a request, over which the signature is made."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal[1]
    kind: Literal["deletion"]
    run: Number
    client: str = Field(min_length=1, max_length=200)
    """Name of the client in that run."""
    client_hash: Hash
    """Name of the client hashed with its salt, as the ledger has it."""
    nonce: Number
    scope: Scope
    slices: list[Count]
    """Slices that lose data, in order; empty if the request deletes the whole client."""
    records: dict[str, list[Hash]]
    """Salted hashes of the records to delete, by slice; empty if whole slices or the client are deleted."""

    def signed_bytes(self) -> bytes:
        """Return the canonical form, over which the signature is made."""
        return signed_json(self.model_dump(mode="json"))

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.client.isprintable():
            raise ValueError("the client's name cannot be printed")
        hashes = [code for codes in self.records.values() for code in codes]
        if self.slices != sorted(set(self.slices)) or len(set(hashes)) < len(hashes):
            raise ValueError("a slice or a record is named twice, or slices are not in order")
        named = [str(index) for index in self.slices] if self.scope == "records" else []
        if set(named) != self.records.keys() or not all(self.records.values()):
            raise ValueError("each slice has its records if single records are to go, and none otherwise")
        if bool(self.slices) == (self.scope == "client"):
            raise ValueError("a whole client names no slice, anything else at least one")
        return self


@dataclass(frozen=True)
class SignedRequest:
    """A request whose signature was checked."""

    body: RequestBody
    number: int
    """Number of the client in the run's description."""
    signature: str

    @cached_property
    def content(self) -> str:
        """Hash of this very request; another request for the same data has another one."""
        return hashlib.sha256(frames(DOMAIN, self.body.signed_bytes(), self.signature)).hexdigest()

    @property
    def key(self) -> str:
        """Idempotency key in the ledger."""
        # "petition" is in the ledgers of earlier runs: it must not change.
        return f"petition/{self.body.client}/{self.body.nonce}"

    def parts(self, live: Live) -> list[DeletionPart]:
        """Return the parts of the deletion in the run as it is now, without data that is deleted already."""
        numbers = [self.number] if self.body.scope != "client" else self._all_of_its(live)
        parts = [part for number in numbers if (part := self._part(live, number)) is not None]
        if not parts:
            why = f"client {self.body.client}: nothing of this is left to delete"
            raise RequestRefused("nothing-left", why)
        return parts

    def _all_of_its(self, live: Live) -> list[int]:
        """Return the numbers of all clients with this key: a client that came back is the same client."""
        entries = live.description.clients
        return [number for number, entry in enumerate(entries) if entry.node == entries[self.number].node]

    def _part(self, live: Live, number: int) -> DeletionPart | None:
        """Return the deletion from one client; None if nothing of it is left."""
        body, left = self.body, records_left(live, number)
        gone = live.deleted.get(number, DeletedData())
        named = body.slices if body.scope != "client" else range(len(left))
        if beyond := [index for index in named if index >= len(left)]:
            known = f"it has 0 to {len(left) - 1}"
            raise RequestRefused("out-of-range", f"client {body.client} has no slice {beyond[0]}; {known}")
        _check_hashes(body, left, gone)
        slices = tuple(index for index in named if index not in gone.slices)
        records = [code for index in slices for code in body.records.get(str(index), ())]
        counts = tuple(len(body.records[str(i)]) if body.scope == "records" else left[i] for i in slices)
        if not any(counts):
            return None
        return DeletionPart(number, body.client_hash, body.scope, slices, counts, tuple(sorted(records)))


def sign_record_requests(
    key: EllipticCurvePrivateKey, run: str, client: Client, ids: Sequence[str]
) -> list[Envelope]:
    """Sign requests to delete these records, each with at most `MOST_RECORDS`."""
    found = []
    for start in range(0, len(ids), MOST_RECORDS):
        located = client.slices_of(ids[start : start + MOST_RECORDS])
        records = {
            str(index): sorted(client.hash_of(name) for name in there) for index, there in located.items()
        }
        found.append(_signed(key, run, client, "records", list(located), records))
    return found


def sign_request(
    key: EllipticCurvePrivateKey, run: str, client: Client, slices: Sequence[int] | None
) -> Envelope:
    """Sign a request to delete these slices, or all data of the client."""
    if slices is None:
        return _signed(key, run, client, "client", [], {})
    return _signed(key, run, client, "slice", sorted(set(slices)), {})


def check_request(envelope: object, live: Live) -> SignedRequest:
    """Return the request if the client that it names has signed it for this run; refuse it otherwise."""
    body, signature = read_request(envelope)
    if body.run != live.description.id:
        raise RequestRefused("unknown-run", f"the request is for another run, {body.run}")
    entries = live.description.clients
    number = next((index for index, entry in enumerate(entries) if entry.name == body.client), None)
    if number is None:
        raise RequestRefused("unknown-client", "no client of this run has the name that the request says")
    node = entries[number].node
    # Without a key nobody can prove to be this client; its data is the operator's to delete.
    if node is None:
        raise RequestRefused(
            "not-remote", f"client {body.client} does not hold its data itself; ask the operator"
        )
    if not check_signature(node, DOMAIN + body.signed_bytes(), _signature_bytes(signature)):
        raise RequestRefused("forged", f"the signature is not that of client {body.client} under this text")
    return SignedRequest(body, number, signature)


def read_request(envelope: object) -> tuple[RequestBody, str]:
    """Return a request's body and signature, checked for their form alone."""
    if not isinstance(envelope, dict) or envelope.keys() != {"body", "signature"}:
        raise RequestRefused("malformed", "not a request; it is a JSON object of `body` and `signature`")
    signature = envelope["signature"]
    _signature_bytes(signature)  # raises if the text is no signature at all
    try:
        body = RequestBody.model_validate(envelope["body"])
    except ValidationError as error:
        first = error.errors()[0]
        # Unknown keys are not repeated in the message: their texts are the sender's, and end on a terminal.
        keys = [str(part) if isinstance(part, int) or part.isidentifier() else "?" for part in first["loc"]]
        where = ".".join(["body", *keys])
        raise RequestRefused("malformed", f"{where}: {first['msg'].removeprefix('Value error, ')}") from None
    return body, signature


def _signed(
    key: EllipticCurvePrivateKey,
    run: str,
    client: Client,
    scope: Scope,
    slices: list[int],
    records: Mapping[str, list[str]],
) -> Envelope:
    body = RequestBody(
        format=1,
        kind="deletion",
        run=run,
        client=client.name,
        client_hash=client_hash(client.salt, client.name),
        nonce=secrets.token_hex(16),  # a copy of the request, sent again, is recognised by it
        scope=scope,
        slices=slices,
        records=dict(records),
    )
    signature = base64.b64encode(sign_bytes(key, DOMAIN + body.signed_bytes())).decode()
    return {"body": body.model_dump(mode="json"), "signature": signature}


def _signature_bytes(text: object) -> bytes:
    with suppress(binascii.Error, ValueError):
        found = base64.b64decode(text if isinstance(text, str) else "", validate=True)
        # Decoders accept wrong padding, so the text is compared: only one spelling of the same bytes counts.
        if found and base64.b64encode(found).decode() == text:
            return found
    raise RequestRefused("malformed", "signature: not a text in base64")


def _check_hashes(body: RequestBody, left: Sequence[int], gone: DeletedData) -> None:
    for index in body.slices if body.scope == "records" else ():
        codes = body.records[str(index)]
        if not gone.records.isdisjoint(codes):
            raise RequestRefused(
                "already-deleted", f"slice {index}: a record that is named was deleted before"
            )
        # The server cannot tell which records the hashes mean, but their number it can check.
        if len(codes) > left[index] and index not in gone.slices:
            raise RequestRefused(
                "too-many",
                f"slice {index}: {counted(len(codes), 'record')} named, but only {left[index]} left",
            )
