"""The files that `fedsgt keys` makes, and a TLS connection with them."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path

# The files of a server and its client a, and the most that others may do with each.
TREE = {
    "ca.key": 0o600,
    "ca.crt": 0o644,
    "server/ca.crt": 0o644,
    "server/server.crt": 0o644,
    "server/server.key": 0o600,
    "server/server.toml": 0o644,
    "server/clients/a.pub": 0o644,
    "a/client.toml": 0o644,
    "a/ca.crt": 0o644,
    "a/node.key": 0o600,
    "a/node.pub": 0o644,
    "a/salt": 0o600,
}


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder with their bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def handshake(folder: Path, host: str, authority: Path) -> str | None:
    """Connect over loopback with the strictest checks; return the protocol that both agreed on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server/server.crt", folder / "server/server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):  # the client may refuse
                context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        trust = ssl.create_default_context(cafile=authority)
        trust.verify_flags |= ssl.VERIFY_X509_STRICT
        try:
            connection = socket.create_connection(listener.getsockname(), timeout=20)
            with connection, trust.wrap_socket(connection, server_hostname=host) as secured:
                return secured.version()
        finally:
            thread.join()
