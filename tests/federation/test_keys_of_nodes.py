"""A client's key: which files are taken for one, and that a signature holds in one spelling only."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from fedsgt.errors import InputError
from fedsgt.federation.keys import check_signature, load_private, make_client, public_text, sign_bytes

ORDER = ec.SECP384R1().group_order


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client")
    make_client(folder, "a", enrol=False)
    return folder / "a"


def test_a_signature_holds_for_its_bytes_and_its_key(client: Path, tmp_path: Path) -> None:
    key, public = load_private(client / "node.key"), public_text(client / "node.pub")
    assert public.split()[0] == "ecdsa-sha2-nistp384"
    assert len(public.split()) == 2
    make_client(tmp_path, "b", enrol=False)
    for data in (b"", b"a request", bytes(10_000)):
        signature = sign_bytes(key, data)
        assert len(signature) == 96
        assert check_signature(public, data, signature)
        assert not check_signature(public, data + b"x", signature)
        assert not check_signature(public_text(tmp_path / "b/node.pub"), data, signature)
    with pytest.raises(InputError, match="is not an ECDSA P-384 public key"):
        check_signature("ssh-ed25519 AAAA", b"", bytes(96))


def test_a_signature_has_one_spelling(client: Path) -> None:
    key, public = load_private(client / "node.key"), public_text(client / "node.pub")
    for _ in range(20):  # half of all signatures come with the large s
        signature = sign_bytes(key, b"a request")
        r, s = int.from_bytes(signature[:48]), int.from_bytes(signature[48:])
        key.public_key().verify(encode_dss_signature(r, ORDER - s), b"a request", ec.ECDSA(SHA384()))
        assert not check_signature(public, b"a request", signature[:48] + (ORDER - s).to_bytes(48))
        assert not check_signature(public, b"a request", encode_dss_signature(r, s))
    for wrong in (b"", bytes(96), signature[:-1], signature + b"\0", b"\xff" * 48 + signature[48:]):
        assert not check_signature(public, b"a request", wrong)


def written(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_private_keys_that_are_refused(client: Path, tmp_path: Path) -> None:
    key = load_private(client / "node.key")
    with pytest.raises(InputError, match="mode 640 lets others at the key; run chmod 600"):
        load_private(written(tmp_path / "key", (client / "node.key").read_bytes(), mode=0o640))
    ed25519 = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    shorter = ec.generate_private_key(ec.SECP256R1())
    for data in (ed25519, shorter.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())):
        with pytest.raises(InputError, match="of another kind; give an ECDSA P-384 key"):
            load_private(written(tmp_path / "key", data))
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    with pytest.raises(InputError, match="this key has a password"):
        load_private(written(tmp_path / "key", locked))
    with pytest.raises(InputError, match="not a private key; fedsgt keys makes one"):
        load_private(written(tmp_path / "key", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"))


def test_public_keys_that_are_refused(client: Path, tmp_path: Path) -> None:
    line = (client / "node.pub").read_bytes()
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    for data in (
        b"",
        b"\xff",
        line[:80],
        line + line,
        other.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
    ):
        with pytest.raises(InputError, match=r"x\.pub: not a client's public key; it is one line"):
            public_text(written(tmp_path / "x.pub", data))
