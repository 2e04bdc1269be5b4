"""Signed JSON: Ed25519 over the canonical form (RFC 8785), which spaces and key order do not change."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import JsonValue

from fedsgt.errors import InputError
from fedsgt.files.durable import read_limited, reported, sync_folder, write_once
from fedsgt.files.encoding import parse_json, signed_json

# A signature over something else that happens to be the same JSON is none of ours.
DOMAIN = b"fedsgt.certificate.1\n"
METHOD = {"algorithm": "Ed25519", "canonical": "RFC 8785"}
MAX_KEY_BYTES = 2**16
_ID = re.compile(r"[0-9a-f]{64}")


class BadSignature(InputError):
    """The text was not signed so by the holder of this key."""


@dataclass(frozen=True)
class PublicKey:
    """What signatures are checked with; anybody may have it."""

    key: Ed25519PublicKey

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a PEM file; a private key is refused, since it should not be passed around."""
        data = read_limited(path, MAX_KEY_BYTES)
        if b"PRIVATE KEY" in data:
            raise InputError(
                f"{path}: holds a private key; give the public key, and keep the private one secret"
            )
        try:
            key = serialization.load_pem_public_key(data)
        except (ValueError, UnsupportedAlgorithm):
            raise InputError(f"{path}: not a public key; give an Ed25519 public key in PEM form") from None
        if not isinstance(key, Ed25519PublicKey):
            raise InputError(f"{path}: a public key of another kind; give an Ed25519 public key in PEM form")
        return cls(key)

    @property
    def text(self) -> str:
        """SubjectPublicKeyInfo in PEM form."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.key.public_bytes(serialization.Encoding.PEM, form).decode()

    @property
    def id(self) -> str:
        """SHA-256 of the key's 32 bytes."""
        return hashlib.sha256(self.key.public_bytes_raw()).hexdigest()


@dataclass(frozen=True)
class SigningKey:
    """What signatures are made with; it stays with the run's operator."""

    key: Ed25519PrivateKey

    @classmethod
    def make(cls, path: Path) -> Self:
        """A new key in a new file that only its owner can read; a file that is there is never replaced."""
        try:
            return cls._made(path)
        except FileExistsError:
            raise InputError(
                f"{path}: already there; a key is never replaced, so give another path"
            ) from None

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a PEM file; one that others can read is refused, for they could sign with it."""
        data = read_limited(path, MAX_KEY_BYTES, private=True)
        try:
            key = serialization.load_pem_private_key(data, password=None)
        except TypeError:
            raise InputError(f"{path}: this key has a password; give one without, of mode 600") from None
        except (ValueError, UnsupportedAlgorithm):
            raise InputError(f"{path}: not a private key; give an Ed25519 key in PEM form (PKCS8)") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise InputError(
                f"{path}: a private key of another kind; give an Ed25519 key in PEM form (PKCS8)"
            )
        return cls(key)

    @classmethod
    def read_or_make(cls, path: Path) -> Self:
        """The key of this file; all processes that ask for it at once get the one that the first has made."""
        if not os.path.exists(path):
            with suppress(FileExistsError):
                return cls._made(path)
        key = cls.read(path)
        with reported("read", path):
            # Its maker may not have synced the folder yet, and what this key signs must stay checkable.
            sync_folder(path.parent)
        return key

    @classmethod
    def _made(cls, path: Path) -> Self:
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_once(path, pem, mode=0o600)
        return cls(key)

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.key.public_key())

    @property
    def public_text(self) -> str:
        return self.public.text

    @property
    def public_id(self) -> str:
        return self.public.id


def sign(body: Mapping[str, JsonValue], key: SigningKey) -> dict[str, JsonValue]:
    """The body, as it will be read, and its signature."""
    signed = signed_json(dict(body))
    value = base64.b64encode(key.key.sign(DOMAIN + signed)).decode()
    return {
        "body": parse_json(signed, "the text to sign"),
        "signature": {**METHOD, "key": key.public_id, "value": value},
    }


def verify(envelope: JsonValue, key: PublicKey) -> dict[str, JsonValue]:
    """The body, read from the very bytes that were signed with this key; anything else is an error."""
    body, signature = parts(envelope)
    value = _signature_bytes(signature)
    if signature["key"] != key.id:
        raise BadSignature(f"signed with key {signature['key']}, but the key given is {key.id}")
    signed = signed_json(body)
    try:
        key.key.verify(value, DOMAIN + signed)
    except InvalidSignature:
        raise BadSignature(
            "the signature does not hold: the text or the signature was changed, or another key made it"
        ) from None
    found: dict[str, JsonValue] = parse_json(signed, "the signed text")
    return found


def parts(envelope: JsonValue) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Body and signature as they stand, with nothing checked but that both are there."""
    if isinstance(envelope, dict) and envelope.keys() == {"body", "signature"}:
        body, signature = envelope["body"], envelope["signature"]
        if isinstance(body, dict) and isinstance(signature, dict):
            return body, signature
    raise InputError("not a signed text; it is a JSON object of `body` and `signature`, both objects")


def _signature_bytes(signature: dict[str, JsonValue]) -> bytes:
    key, value = signature.get("key"), signature.get("value")
    if signature.keys() != {*METHOD, "key", "value"} or any(signature[k] != v for k, v in METHOD.items()):
        raise BadSignature(
            "malformed signature; it names algorithm Ed25519, canonical RFC 8785, key and value"
        )
    if not isinstance(key, str) or not _ID.fullmatch(key):
        raise BadSignature("malformed signature; its key is 64 lower-case hexadecimal digits")
    with suppress(binascii.Error, ValueError, TypeError):
        found = base64.b64decode(str(value), validate=True)
        # The last letter has spare bits: only one spelling of the same bytes counts.
        if len(found) == 64 and base64.b64encode(found).decode() == value:
            return found
    raise BadSignature("malformed signature; its value is 64 bytes in base64")
