"""Keys of a federation's parties, made once and never replaced, and signatures by a client's key."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509 import Certificate

from fedsgt.certificates.keys import MAX_KEY_BYTES
from fedsgt.data.fingerprints import new_salt
from fedsgt.errors import InputError
from fedsgt.federation.authority import (
    as_pem,
    authority_certificate,
    check_certificate,
    check_hosts,
    hosts_of,
    read_certificate,
    server_certificate,
)
from fedsgt.federation.settings import (
    CLIENT_FILE,
    SERVER_FILE,
    ClientSettings,
    PartySettings,
    ServerSettings,
    check_name,
    load_client,
    load_server,
    starter,
)
from fedsgt.files.durable import make_folder, read_limited, remove_abandoned, write_once

CURVE, HASH = ec.SECP384R1(), hashes.SHA384()
NUMBER_BYTES = 48
STARTER_DATA = {"source": "records.parquet"}
PRIVATE, PUBLIC = 0o600, 0o644


def make_authority(
    folder: Path, hosts: Sequence[str] = (), *, port: int | None = None, desk_port: int | None = None
) -> list[Path]:
    """Make the files of the authority and of the server that are missing, and return them.

    The server listens on the first host, and its certificate holds for all of them.
    """
    made: list[Path] = []
    server = folder / "server"
    ports = {"port": port, "desk_port": desk_port}
    first = {"host": check_hosts(hosts)[0]} if hosts else {}
    # The settings come before any file is written, so that wrong values leave nothing behind.
    settings = starter(ServerSettings, {**first, **_stated(ports)}, server / SERVER_FILE)
    make_folder(server / "clients")
    _make_key(made, folder / "ca.key", folder / "ca.crt", PrivateFormat.PKCS8)
    _keep(made, folder / "ca.crt", lambda: as_pem(authority_certificate(load_private(folder / "ca.key"))))
    _make_key(made, server / "server.key", server / "server.crt", PrivateFormat.PKCS8)
    _keep(made, server / "server.crt", lambda: as_pem(_signed_for_server(folder, hosts)))
    check_certificate(server / "server.crt", read_certificate(folder / "ca.crt"), hosts)
    _copy_authority(made, folder, server)
    _keep(made, server / SERVER_FILE, lambda: settings)
    _check_stated(server / SERVER_FILE, load_server(server), ports)
    return made


def make_client(
    folder: Path, name: str, *, server: str | None = None, desk: str | None = None, enrol: bool = True
) -> list[Path]:
    """Make the files of a client that are missing, and return them.

    With `enrol`, its public key is copied into the server's folder too.
    """
    made: list[Path] = []
    own = folder / check_name(name)
    given = {"name": name, "server": server, "desk": desk}
    if enrol:
        _check_not_elsewhere(own, _enrolled(folder, name))
    known = _server_addresses(folder / "server") if enrol else {}
    settings = starter(ClientSettings, {**known, **_stated(given), "data": STARTER_DATA}, own / CLIENT_FILE)
    # Nobody else may look into the folder, which holds the key, the salt and the records' state.
    make_folder(own, mode=0o700)
    _make_key(made, own / "node.key", own / "node.pub", PrivateFormat.OpenSSH)
    _keep(made, own / "salt", new_salt, PRIVATE)
    if (folder / "ca.crt").exists():
        _copy_authority(made, folder, own)
    _keep(made, own / CLIENT_FILE, lambda: settings)
    _check_stated(own / CLIENT_FILE, load_client(own), given)
    # The public key comes last: once the server has it, the client's folder is complete.
    for place in (own / "node.pub", *([_enrolled(folder, name)] if enrol else [])):
        _publish(made, own, place)
    return made


def load_private(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a private key; raise if other users can read the file, for they could sign with it."""
    data = read_limited(path, MAX_KEY_BYTES, private=True)
    ssh = data.startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    try:
        key = (load_ssh_private_key if ssh else load_pem_private_key)(data, None)
    except TypeError:
        raise InputError(f"{path}: this key has a password; give one without, of mode 600") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"{path}: not a private key; fedsgt keys makes one") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != CURVE.name:
        raise InputError(f"{path}: a private key of another kind; give an ECDSA P-384 key")
    return key


def public_text(path: Path) -> str:
    """Return the public key of a public or private key's file: OpenSSH's two words, without a comment."""
    data = read_limited(path, MAX_KEY_BYTES)
    if b"PRIVATE KEY" in data:
        return _two_words(load_private(path).public_key())
    try:
        return _two_words(_public(data.decode()))
    except (InputError, UnicodeDecodeError):
        raise InputError(
            f"{path}: not a client's public key; it is one line, ecdsa-sha2-nistp384 and the key"
        ) from None


def sign_bytes(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    """Sign bytes; return r and s, 48 bytes each, with the smaller of the two values that s may have."""
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(HASH)))
    return b"".join(number.to_bytes(NUMBER_BYTES) for number in (r, min(s, CURVE.group_order - s)))


def check_signature(public: str, data: bytes, signature: bytes) -> bool:
    """Whether this key signed these bytes; only one spelling of a signature counts."""
    if len(signature) != 2 * NUMBER_BYTES:
        return False
    r, s = int.from_bytes(signature[:NUMBER_BYTES]), int.from_bytes(signature[NUMBER_BYTES:])
    # With every valid s, the curve's order minus s is valid too; only the smaller one counts.
    if s > CURVE.group_order // 2:
        return False
    try:
        _public(public).verify(encode_dss_signature(r, s), data, ec.ECDSA(HASH))
    except InvalidSignature:
        return False
    return True


def _public(text: str) -> ec.EllipticCurvePublicKey:
    with suppress(ValueError, UnsupportedAlgorithm):
        key = load_ssh_public_key(text.encode())
        one_line = len(text.splitlines()) == 1
        if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == CURVE.name and one_line:
            return key
    raise InputError(f"{text[:60]!r} is not an ECDSA P-384 public key in OpenSSH form")


def _two_words(key: ec.EllipticCurvePublicKey) -> str:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _keep(made: list[Path], path: Path, make: Callable[[], bytes], mode: int = PUBLIC) -> None:
    """Make a file if there is none, and remove an unfinished one of a killed writer."""
    for unfinished in path.parent.glob(f".{'[0-9a-f]' * 16}.{glob.escape(path.name)}"):
        remove_abandoned(unfinished)
    # A link counts as existing even if it leads nowhere, and a file that another process makes at the same
    # moment stays: keys are never replaced.
    if not os.path.lexists(path):
        with suppress(FileExistsError):
            write_once(path, make(), mode)
            made.append(path)


def _make_key(made: list[Path], path: Path, derived: Path, form: PrivateFormat) -> None:
    """Make a private key, unless it or the file derived from it exists, which another key would not fit."""
    if derived.exists():
        return

    def new() -> bytes:
        return ec.generate_private_key(CURVE).private_bytes(Encoding.PEM, form, NoEncryption())

    _keep(made, path, new, PRIVATE)


def _enrolled(folder: Path, name: str) -> Path:
    return folder / "server" / "clients" / f"{name}.pub"


def _check_not_elsewhere(own: Path, enrolled: Path) -> None:
    if enrolled.exists() and not (own / "node.key").exists():
        raise InputError(
            f"{enrolled}: its private key is not in {own}; give another name, or move this file away"
        )


def _publish(made: list[Path], own: Path, place: Path) -> None:
    public = public_text(own / "node.key")
    _keep(made, place, f"{public} {own.name}\n".encode)
    if public_text(place) != public:
        raise InputError(f"{place}: of another key than {own / 'node.key'}; move one of them away")


def _signed_for_server(folder: Path, hosts: Sequence[str]) -> Certificate:
    key = load_private(folder / "server" / "server.key").public_key()
    return server_certificate(
        key, hosts, read_certificate(folder / "ca.crt"), load_private(folder / "ca.key")
    )


def _copy_authority(made: list[Path], folder: Path, party: Path) -> None:
    authority = read_limited(folder / "ca.crt", MAX_KEY_BYTES)
    _keep(made, party / "ca.crt", lambda: authority)
    if read_limited(party / "ca.crt", MAX_KEY_BYTES) != authority:
        raise InputError(
            f"{party / 'ca.crt'}: differs from {folder / 'ca.crt'}; move it away and run this again"
        )


def _server_addresses(server: Path) -> dict[str, str]:
    """Return the server's addresses for clients, under the first name of its certificate."""
    settings = load_server(server)
    host = next(iter(hosts_of(read_certificate(settings.certificate))), settings.host)
    host = f"[{host}]" if ":" in host else host
    return {"server": f"{host}:{settings.port}", "desk": f"{host}:{settings.desk_port}"}


def _stated(given: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in given.items() if value is not None}


def _check_stated(path: Path, settings: PartySettings, given: Mapping[str, object]) -> None:
    """Raise if an existing file of settings has another value than the one asked for."""
    for key, value in _stated(given).items():
        found = getattr(settings, key)
        if found != value:
            raise InputError(
                f"{path}: is there already, with {key} = {found!r}; change it to {value!r} there"
            )


def known_keys(folder: Path) -> dict[str, str]:
    """Return the public key of each client whose NAME.pub lies in this folder, by name."""
    return {path.stem: public_text(path) for path in sorted(folder.glob("*.pub"))}
