"""The federation's TLS certificates: its authority, and the server's certificate signed by it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsgt.certificates.keys import MAX_KEY_BYTES
from fedsgt.errors import InputError
from fedsgt.files.durable import read_limited

# Names that every server's certificate has, for commands on the server's own machine.
ALWAYS = ("127.0.0.1", "localhost")
# Ten years, and the longest that common TLS clients accept for a server's certificate.
AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")


def check_hosts(hosts: Sequence[str]) -> Sequence[str]:
    """Check that a certificate can state these hosts, and return them."""
    for host in hosts:
        _check_host(host)
    return hosts


def _check_host(host: str) -> None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        labels = host.split(".")
        named = len(host) <= 253 and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdigit()
        wrong = "" if named else "neither a host's name (in ASCII) nor an IP address"
    else:
        wrong = "every address of a machine, and nobody connects to it" if address.is_unspecified else ""
        wrong = "tied to one network card" if "%" in host else wrong
    if wrong:
        raise InputError(f"host {host!r} is {wrong}; give what clients connect to, such as fed.example.org")


def authority_certificate(key: EllipticCurvePrivateKey) -> x509.Certificate:
    """Make the authority's certificate, signed by itself; it may sign certificates, but no authorities."""
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # The name of each authority differs, so that nobody who trusts two mixes them up.
    name = _name(f"FedSGT authority {identifier.digest.hex()[:12]}")
    builder = (
        _builder(key.public_key(), name, name, datetime.now(UTC) + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
    )
    return builder.sign(key, hashes.SHA384())


def server_certificate(
    key: EllipticCurvePublicKey,
    hosts: Iterable[str],
    authority: x509.Certificate,
    signer: EllipticCurvePrivateKey,
) -> x509.Certificate:
    """Make the certificate of a server under these names; clients are told the first."""
    # A certificate that outlives its authority's would be refused from that day on all the same.
    ends = min(datetime.now(UTC) + timedelta(days=SERVER_DAYS), authority.not_valid_after_utc)
    issuer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer)
    names = x509.SubjectAlternativeName([_general(host) for host in dict.fromkeys((*hosts, *ALWAYS))])
    builder = (
        _builder(key, _name("FedSGT server"), authority.subject, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(names, critical=False)
    )
    return builder.sign(signer, hashes.SHA384())


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """Return the hosts that a certificate states, in their order."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in names]


def as_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def read_certificate(path: Path) -> x509.Certificate:
    """Read the first certificate of a PEM file."""
    try:
        return x509.load_pem_x509_certificate(read_limited(path, MAX_KEY_BYTES))
    except ValueError:
        raise InputError(f"{path}: not a certificate in PEM form; put the right one there") from None


def check_certificate(path: Path, authority: x509.Certificate, hosts: Iterable[str]) -> None:
    """Check that an existing certificate is valid, from this authority and for these hosts."""
    found = read_certificate(path)
    known = [_general(host) for host in hosts_of(found)]
    missing = [host for host in hosts if _general(host) not in known]
    wrong = f"does not name {missing[0]}" if missing else ""
    if found.not_valid_after_utc < datetime.now(UTC):
        wrong = f"ended on {found.not_valid_after_utc:%Y-%m-%d}"
    try:
        found.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        wrong = "is not from this folder's authority"
    if wrong:
        raise InputError(f"{path}: {wrong}; nothing is overwritten, so move it away and run this again")


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.lower())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    key: EllipticCurvePublicKey, subject: x509.Name, issuer: x509.Name, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # The clocks of other machines may be behind.
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
