"""Ed25519 keys that sign certificates and check them, and the files of a run that hold them."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedsgt.errors import InputError
from fedsgt.files.durable import read_limited, replace_file, reported, sync_folder, write_once

# Imported late, or for type hints only: checking a certificate must not load what makes and keeps runs.
if TYPE_CHECKING:
    from fedsgt.runs.folder import RunFolder

# A key in PEM form has a few hundred bytes; a file much larger is no key.
MAX_KEY_BYTES = 2**16


@dataclass(frozen=True)
class PublicKey:
    """Key that checks signatures; anybody may have it."""

    key: Ed25519PublicKey

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a PEM file; refuse a private key, since it should not be passed around."""
        data = read_limited(path, MAX_KEY_BYTES)
        # Looked for in the text, so that a private key of any kind, also with a password, is refused.
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
        """The key in PEM form (SubjectPublicKeyInfo)."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.key.public_bytes(serialization.Encoding.PEM, form).decode()

    @property
    def id(self) -> str:
        """SHA-256 of the key's 32 bytes."""
        return hashlib.sha256(self.key.public_bytes_raw()).hexdigest()


@dataclass(frozen=True)
class SigningKey:
    """Key that makes signatures; it stays with the run's operator."""

    key: Ed25519PrivateKey

    @classmethod
    def make(cls, path: Path) -> Self:
        """Make a new key in a new file that only its owner can read; never replace a file."""
        try:
            return cls._make(path)
        except FileExistsError:
            raise InputError(
                f"{path}: already there; a key is never replaced, so give another path"
            ) from None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a PEM file; refuse one that others can read, for they could sign with it."""
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
        """Return the key in this file; processes that ask at once all get the key that the first one made."""
        if not os.path.exists(path):
            # Another process may be faster; then its key is read below.
            with suppress(FileExistsError):
                return cls._make(path)
        key = cls.read(path)
        with reported("read", path):
            # Its maker may not have synced the folder yet, and what this key signs must stay checkable.
            sync_folder(path.parent)
        return key

    @classmethod
    def _make(cls, path: Path) -> Self:
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_once(path, pem, mode=0o600)
        return cls(key)

    @property
    def public(self) -> PublicKey:
        """The public key that checks this key's signatures."""
        return PublicKey(self.key.public_key())

    @property
    def public_text(self) -> str:
        """The public key in PEM form."""
        return self.public.text

    @property
    def public_id(self) -> str:
        """SHA-256 of the public key's 32 bytes."""
        return self.public.id


def check_signing_key(folder: RunFolder) -> None:
    """Raise if the key that signs certificates is there and cannot be used, or is named and missing."""
    path, named = _key_file(folder)
    if named or os.path.lexists(path):
        SigningKey.read(path)


def signing_key(folder: RunFolder) -> SigningKey:
    """Return the key that the configuration names, or the run's own, which is made if it is missing.

    The ledger names the key before it signs anything, so that no key takes another's place in silence.
    """
    path, named = _key_file(folder)
    reason = "the key file holds another"
    if named:
        reason = "the configuration names another"
    elif not os.path.lexists(path):
        reason = "the key file was missing"
    key = SigningKey.read(path) if named else SigningKey.read_or_make(path)
    _record(folder, key, reason)
    _keep_public(folder.path, key)
    return key


def public_keys(folder: RunFolder) -> list[PublicKey]:
    """Return the public keys of all keys that signed certificates of this run, the present one first."""
    from fedsgt.runs.artefacts import PUBLIC_KEY

    names = [PUBLIC_KEY, *sorted(path.name for path in folder.path.glob("signing-*.pub"))]
    # The present one may be lost: what earlier keys signed can be checked all the same.
    return [PublicKey.read(folder.path / name) for name in names if (folder.path / name).exists()]


def public_name(key: str) -> str:
    """Return the name of the file that a run keeps the public key of this id in, for good."""
    return f"signing-{key[:16]}.pub"


def _key_file(folder: RunFolder) -> tuple[Path, bool]:
    """Return the file of the signing key, and whether the configuration names it."""
    from fedsgt.runs.artefacts import SIGNING_KEY

    named = folder.config.unlearning.key
    return (Path(named), True) if named else (folder.path / SIGNING_KEY, False)


def _record(folder: RunFolder, key: SigningKey, reason: str) -> None:
    """Write to the ledger that this key signs from now on, unless it did already."""
    from fedsgt.ledger.kinds import Kind

    known = folder.live().keys
    if known and known[-1].body["key"] == key.public_id:
        return
    previous = known[-1].body["key"] if known else _last_public(folder.path)
    if previous == key.public_id:  # a run of an earlier version, whose ledger names no key
        previous = None
    body = {"key": key.public_id, "previous": previous, "reason": reason if previous else "first"}
    with folder.ledger.writing() as writer:
        writer.append(Kind.KEY, body)


def _last_public(folder: Path) -> str | None:
    """Return the id of the key that signed last in a run whose ledger names none; None if it is unknown."""
    from fedsgt.runs.artefacts import PUBLIC_KEY

    kept = sorted(folder.glob("signing-*.pub"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in (folder / PUBLIC_KEY, *kept):
        with suppress(InputError):
            return PublicKey.read(path).id
    return None


def _keep_public(folder: Path, key: SigningKey) -> None:
    """Write the public key into the run, also under its id: a later key must not replace it there."""
    from fedsgt.runs.artefacts import PUBLIC_KEY

    text = key.public_text.encode()
    for name in (PUBLIC_KEY, public_name(key.public_id)):
        path = folder / name
        with reported("write", path):
            if not path.is_file() or path.read_bytes() != text:
                replace_file(path, text)
                sync_folder(folder)
