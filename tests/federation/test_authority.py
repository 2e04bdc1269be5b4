"""TLS certificates: whom they hold for, how long, and which hosts they can name."""

from __future__ import annotations

import shutil
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from authority_files import contents, handshake
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from fedsgt.errors import InputError
from fedsgt.federation.authority import (
    ALWAYS,
    as_pem,
    authority_certificate,
    check_hosts,
    hosts_of,
    read_certificate,
    server_certificate,
)
from fedsgt.federation.keys import make_authority, make_client


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a federation that is made once; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("federation") / "keys"
    make_authority(folder, ["fed.example.org", "::1"], port=19092, desk_port=19093)
    make_client(folder, "a")
    return folder


@pytest.fixture
def copied(federation: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(federation, tmp_path / "keys"))


@pytest.mark.parametrize("host", ["fed.example.org", "::1", "127.0.0.1", "localhost"])
def test_tls_holds_for_every_name_of_the_server(federation: Path, host: str) -> None:
    assert handshake(federation, host, federation / "a/ca.crt") == "TLSv1.3"


@pytest.mark.parametrize("host", ["other.example.org", "127.0.0.2"])
def test_tls_refuses_another_host(federation: Path, host: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(federation, host, federation / "ca.crt")


def test_tls_refuses_another_authority(federation: Path, tmp_path: Path) -> None:
    make_authority(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(federation, "localhost", tmp_path / "ca.crt")


def test_a_certificate_is_made_anew_once_it_is_out_of_the_way(copied: Path) -> None:
    before = contents(copied)
    (copied / "server/server.crt").unlink()
    assert make_authority(copied, ["new.example.org"]) == [copied / "server/server.crt"]
    assert contents(copied)["server/server.key"] == before["server/server.key"]
    assert handshake(copied, "new.example.org", copied / "a/ca.crt")


def test_a_certificate_that_has_ended_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsgt.federation.authority.SERVER_DAYS", -0.5)
    with pytest.raises(InputError, match=r"server\.crt: ended on .* move it away and run this again"):
        make_authority(tmp_path)


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("0.0.0.0", "every address"),
        ("::", "every address"),
        ("fe80::1%eth0", "tied to one network card"),
        ("", "neither a host's name"),
        ("-fed.example.org", "neither a host's name"),
        ("fed_example.org", "neither a host's name"),
        ("fed.example.org.", "neither a host's name"),
        ("fed..example.org", "neither a host's name"),
        ("föd.example.org", "neither a host's name"),
        ("10.0.0.256", "neither a host's name"),
        (f"{'a' * 64}.org", "neither a host's name"),
        (".".join(["a" * 60] * 5), "neither a host's name"),
        ("fed.example.org:9092", "neither a host's name"),
        ("*.example.org", "neither a host's name"),
    ],
)
def test_hosts_that_no_certificate_can_name(host: str, why: str) -> None:
    with pytest.raises(InputError, match=f"is {why}.*; give what clients connect to"):
        check_hosts(["fed.example.org", host])


def test_hosts_that_it_can_name() -> None:
    hosts = ["fed.example.org", "localhost", "xn--fd-fka.org", "10.0.0.255", "::1", f"{'a' * 63}.org"]
    assert check_hosts(hosts) == hosts


def test_what_the_certificates_may_do() -> None:
    """The server's key must sign no certificate, and the authority's no further authority."""
    signer, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority = authority_certificate(signer)
    server = server_certificate(key.public_key(), ["fed.example.org", "::1", *ALWAYS], authority, signer)
    assert hosts_of(server) == ["fed.example.org", "::1", "127.0.0.1", "localhost"]
    rights = [made.extensions.get_extension_for_class(x509.KeyUsage).value for made in (authority, server)]
    assert [(right.key_cert_sign, right.digital_signature) for right in rights] == [
        (True, False),
        (False, True),
    ]
    constraints = [
        made.extensions.get_extension_for_class(x509.BasicConstraints).value for made in (authority, server)
    ]
    assert [(limit.ca, limit.path_length) for limit in constraints] == [(True, 0), (False, None)]
    now = datetime.now(UTC)
    for made in (authority, server):
        assert made.not_valid_before_utc < now < made.not_valid_after_utc <= authority.not_valid_after_utc


def test_two_authorities_have_different_names() -> None:
    one, two = (authority_certificate(ec.generate_private_key(ec.SECP384R1())) for _ in range(2))
    assert one.subject != two.subject


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    made = authority_certificate(ec.generate_private_key(ec.SECP384R1()))
    path.write_bytes(as_pem(made))
    assert read_certificate(path) == made
    path.write_bytes(as_pem(made)[:-100])
    with pytest.raises(InputError, match=r"ca\.crt: not a certificate in PEM form"):
        read_certificate(path)
