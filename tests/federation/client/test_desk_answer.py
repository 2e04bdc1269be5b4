"""Answers of the desk: only a certificate for this very request counts as done."""

from __future__ import annotations

import json
import shutil
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from remote_world import Federation, desk_connection, desk_process, make_federation

from fedsgt.errors import InputError
from fedsgt.federation.client.desk_answer import Denied, Granted, Unanswered, ask
from fedsgt.federation.client.withdraw import withdraw
from fedsgt.federation.keys import load_private
from fedsgt.federation.signed_request import Envelope, sign_record_requests
from fedsgt.unlearning.request import Deletion


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return make_federation(tmp_path / "fed")


@pytest.fixture
def desk(federation: Federation) -> Iterator[None]:
    with desk_process(federation.server):
        yield


@pytest.mark.usefixtures("desk")
def test_a_desk_of_another_authority_gets_nothing(federation: Federation, tmp_path: Path) -> None:
    other = make_federation(tmp_path / "other")
    shutil.copy(other.folder / "a" / "ca.crt", federation.folder / "a" / "ca.crt")
    (outcome,) = withdraw(federation.settings("a"), Deletion("a", records=("a07",)))
    assert outcome.state == "kept"
    assert "CERTIFICATE_VERIFY_FAILED" in outcome.message
    assert federation.requests() == []


def asked(federation: Federation, record: str = "a07") -> Envelope:
    key, run = load_private(federation.settings("a").key), federation.run().description.id
    (envelope,) = sign_record_requests(key, run, federation.client("a"), [record])
    return envelope


@contextmanager
def answering(federation: Federation, status: int, answer: object) -> Iterator[None]:
    """Answer in the desk's place, with its certificate, whatever is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Print nothing."""

    settings = federation.server
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(settings.certificate, settings.key)
    with HTTPServer(("127.0.0.1", settings.desk_port), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.usefixtures("desk")
def test_the_same_request_hears_the_first_decision_again(federation: Federation) -> None:
    envelope = asked(federation)
    first = ask(federation.settings("a"), envelope)
    assert isinstance(first, Granted)
    assert first.records == 1
    assert ask(federation.settings("a"), envelope) == first


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (200, b"no json", "answered without a certificate"),
        (200, {}, "answered without a certificate"),
        (200, [], "answered without a certificate"),
        (500, {"error": "server", "message": "later"}, r"could not answer \(HTTP 500\)"),
        (502, b"<html>", r"could not answer \(HTTP 502\)"),
        (403, {"error": 7}, r"could not answer \(HTTP 403\)"),
    ],
)
def test_an_answer_that_decides_nothing_is_none(
    federation: Federation, status: int, answer: object, message: str
) -> None:
    """The request is kept then, and sent again."""
    with answering(federation, status, answer), pytest.raises(Unanswered, match=message):
        ask(federation.settings("a"), asked(federation))


def test_a_certificate_of_another_request_is_no_answer(federation: Federation) -> None:
    with desk_process(federation.server), desk_connection(federation.server) as client:
        told: dict[str, Any] = client.post("/v1/requests", json=asked(federation, "a08")).json()
    with (
        answering(federation, 200, {**told, "position": told["position"] + 1}),
        pytest.raises(Unanswered, match="the certificate of another request"),
    ):
        ask(federation.settings("a"), asked(federation))


def test_a_refusal_is_told_without_control_characters(federation: Federation) -> None:
    refusal = {"error": "forged", "message": "no\x1b[2J\nway"}
    with answering(federation, 403, refusal):
        found = ask(federation.settings("a"), asked(federation))
    assert isinstance(found, Denied)
    assert found.reason == "forged"
    assert found.message.isprintable()


def test_an_authority_that_cannot_be_read_is_named(federation: Federation) -> None:
    (federation.folder / "a/ca.crt").write_text("no certificate")
    with pytest.raises(InputError, match=r"a/ca\.crt: not a certificate to know the desk by"):
        ask(federation.settings("a"), asked(federation))
