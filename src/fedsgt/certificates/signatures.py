"""Signed JSON, and certificates as files of signed JSON.

A signature is Ed25519 over the canonical form of RFC 8785, which spaces and the order of keys do not change.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from pydantic import JsonValue, ValidationError

from fedsgt.certificates.content import FORMAT, FORMATS, Certificate
from fedsgt.certificates.keys import PublicKey, SigningKey, public_name
from fedsgt.errors import InputError
from fedsgt.files.durable import read_limited, sync_folder, write_once
from fedsgt.files.encoding import parse_json, signed_json
from fedsgt.words import first_problem

# Signed in front of the text, so that a signature of the same JSON for another purpose is not taken for ours.
DOMAIN = b"fedsgt.certificate.1\n"
METHOD = {"algorithm": "Ed25519", "canonical": "RFC 8785"}
# Ten thousand modules and a million records fit; an endless file does not.
MAX_BYTES = 2**27
MOST_KEYS = 10  # that a message lists
_KEY_ID = re.compile(r"[0-9a-f]{64}")


class BadSignature(InputError):
    """The signature is malformed, of another key, or not one of this text."""


class OtherKey(BadSignature):
    """The text says that another key signed it than the one given."""


def sign(body: Mapping[str, JsonValue], key: SigningKey) -> dict[str, JsonValue]:
    """Return the body, as a reader will get it, with its signature."""
    signed = signed_json(dict(body))
    value = base64.b64encode(key.key.sign(DOMAIN + signed)).decode()
    return {
        "body": parse_json(signed, "the text to sign"),
        "signature": {**METHOD, "key": key.public_id, "value": value},
    }


def verify(envelope: JsonValue, key: PublicKey) -> dict[str, JsonValue]:
    """Return the body, read from the very bytes that this key signed; raise if it did not sign them."""
    body, signature = split_envelope(envelope)
    value = _signature_bytes(signature)
    # Before the signature is checked: "another key" helps more than "does not hold".
    if signature["key"] != key.id:
        raise OtherKey(f"signed with key {signature['key']}, but the key given is {key.id}")
    signed = signed_json(body)
    try:
        key.key.verify(value, DOMAIN + signed)
    except InvalidSignature:
        raise BadSignature(
            "the signature does not hold: the text or the signature was changed, or another key made it"
        ) from None
    # Parsed from the canonical form, in which 1.0 and 1 are the same: only that form was signed.
    found: dict[str, JsonValue] = parse_json(signed, "the signed text")
    return found


def split_envelope(envelope: JsonValue) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Return body and signature; nothing is checked but that both are there."""
    if isinstance(envelope, dict) and envelope.keys() == {"body", "signature"}:
        body, signature = envelope["body"], envelope["signature"]
        if isinstance(body, dict) and isinstance(signature, dict):
            return body, signature
    raise InputError("not a signed text; it is a JSON object of `body` and `signature`, both objects")


def write_certificate(folder: Path, certificate: Certificate, key: SigningKey) -> Path:
    """Sign the certificate and write it to disk; refuse to replace another one of the same request."""
    # Ed25519 is deterministic: the same facts and key give the same envelope every time.
    envelope = sign(certificate.model_dump(mode="json"), key)
    path = folder / f"{certificate.request.position:06d}.json"
    text = json.dumps(envelope, indent=1, ensure_ascii=False) + "\n"
    _make_folder(folder)
    try:
        write_once(path, text.encode(), mode=0o666)
    except FileExistsError:
        # An equal certificate may be there already: a request that is completed twice is signed twice.
        if _read(path) != envelope:
            raise InputError(
                f"{path}: another certificate of this request is there; it is never replaced, so move it away"
            ) from None
        sync_folder(folder)
    return path


def read_certificate(path: Path, key: PublicKey | None) -> Certificate:
    """Return the certificate once its signature holds; without a key the signature is not checked."""
    envelope = _read(path)
    try:
        body = split_envelope(envelope)[0] if key is None else verify(envelope, key)
        return parse_certificate(body)
    except OtherKey as error:
        assert key is not None
        raise OtherKey(f"{path}: {error}{_explanation(envelope, key.id)}") from None
    except BadSignature as error:
        raise BadSignature(f"{path}: {error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def parse_certificate(body: dict[str, JsonValue]) -> Certificate:
    """Return the certificate of this text; refuse one of a newer format by its number."""
    made = body.get("format")
    if type(made) is int and made > FORMAT:
        raise InputError(
            f"this certificate was made by a newer version of fedsgt (format {made}; this one knows up to "
            f"{FORMAT}); update fedsgt; nothing was changed"
        )
    try:
        return Certificate.model_validate(body)
    except ValidationError as error:
        shown = made if made in FORMATS else f"1 to {FORMAT}"
        problem = first_problem(error, "certificate")
        raise InputError(f"not a certificate of format {shown} ({problem})") from None


def _explanation(envelope: JsonValue, given: str) -> str:
    """Return what a certificate of another key says about the keys of its run, which is not checked."""
    body, signature = split_envelope(envelope)
    ask = f"; ask its signer for the public key, {public_name(str(signature['key']))} in the run's folder"
    try:
        keys = parse_certificate(body).keys
    except InputError:
        return ask
    if given not in {entry.key for entry in keys}:
        return ask
    history = ", ".join(f"{entry.key} from position {entry.position} on" for entry in keys[-MOST_KEYS:])
    said = f"its own text, which the key given does not check, says that the run changed its key: {history}"
    return f"; {said}{ask}"


def _signature_bytes(signature: dict[str, JsonValue]) -> bytes:
    key, value = signature.get("key"), signature.get("value")
    if signature.keys() != {*METHOD, "key", "value"} or any(signature[k] != v for k, v in METHOD.items()):
        raise BadSignature(
            "malformed signature; it names algorithm Ed25519, canonical RFC 8785, key and value"
        )
    if not isinstance(key, str) or not _KEY_ID.fullmatch(key):
        raise BadSignature("malformed signature; its key is 64 lower-case hexadecimal digits")
    with suppress(binascii.Error, ValueError, TypeError):
        found = base64.b64decode(str(value), validate=True)
        # The last letter has spare bits: only one spelling of the same bytes counts.
        if len(found) == 64 and base64.b64encode(found).decode() == value:
            return found
    raise BadSignature("malformed signature; its value is 64 bytes in base64")


def _read(path: Path) -> Any:
    return parse_json(read_limited(path, MAX_BYTES), path)


def _make_folder(folder: Path) -> None:
    """Make this folder only: where the run itself is missing, no certificate may pretend that it is there."""
    if not folder.is_dir():
        try:
            folder.mkdir(exist_ok=True)
            sync_folder(folder.parent)
        except OSError as error:
            raise InputError(f"{folder}: cannot make this folder ({error.strerror})") from None
