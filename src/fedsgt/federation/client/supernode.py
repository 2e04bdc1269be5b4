"""Keeps a client's SuperNode connected: restarts it whenever it ends, and tells each change."""

from __future__ import annotations

import secrets
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from fedsgt.federation.client.module_cache import MODULES, FolderModuleCache
from fedsgt.federation.processes import (
    Child,
    RestartedChild,
    flower_command,
    flower_environment,
    stop_signals,
)
from fedsgt.federation.settings import ClientSettings

TICK_SECONDS = 0.3  # how late a process that ended is noticed
LOCAL = "127.0.0.1"
CONNECTED = "connected"
# Beginnings of lines in Flower's log, and what they mean to the client.
NEWS = {
    "SuperNode ID:": CONNECTED,
    "Connection successful after": CONNECTED,
    "Connection attempt failed": "the server cannot be reached; trying again",
    "SSL/TLS handshake error": "the server's certificate is not from the authority in {ca}; trying again",
    "Failed to activate SuperNode": (
        "the server does not let this client in: its key is not there (clients/{name}.pub), "
        "or an earlier connection is not given up yet, which takes a minute; trying again"
    ),
}


class SuperNode:
    """The SuperNode and its executor, two processes that share a secret in a private folder."""

    def __init__(
        self, settings: ClientSettings, config: Path, private: Path, say: Callable[[str], None]
    ) -> None:
        self.settings, self.config, self.say = settings, config.absolute(), say
        self.command = flower_command("flower-supernode")
        self.secret = private / "secret"
        self.secret.touch(mode=0o600)
        self.secret.write_bytes(secrets.token_bytes(32))
        home = settings.folder / "flower"
        home.mkdir(exist_ok=True)
        self.environment = flower_environment(home)
        self.address, self.told, self.read = "", "", 0
        self.node = RestartedChild(self._start_node, self._lost)
        self.executor = RestartedChild(self._start_executor, self._stumbled)

    def tend(self) -> None:
        """Start processes that are due and tell what changed; call this again and again."""
        if self.node.tend():
            self.executor.stop()  # the old executor spoke to the SuperNode before
        self.executor.tend()
        if self.node.child is not None:
            self._tell(self.node.child)

    def stop(self) -> None:
        self.node.stop()
        self.executor.stop()

    def _start_node(self) -> Child:
        settings = self.settings
        # A new port at each start: the old one may still be held by the process that ended.
        port = settings.port or _free_port()
        self.address, self.read = f"{LOCAL}:{port}", 0
        options = [
            *("--superlink", settings.server, "--root-certificates", str(settings.ca)),
            *("--auth-supernode-private-key", str(settings.key)),
            *("--node-config", f"client={_quoted(str(self.config))}"),
            *("--host", LOCAL, "--port", str(port)),
            # Tasks run in the executor, with the installed code and not with code that the server sends.
            *("--isolation", "process", "--superexec-auth-secret-file", str(self.secret)),
        ]
        return Child([self.command, *options], settings.folder / "supernode.log", self.environment)

    def _start_executor(self) -> Child:
        FolderModuleCache(self.settings.folder / MODULES).keep(())  # left by an executor that was killed
        command = [sys.executable, "-m", "fedsgt.federation.client.executor", self.address, str(self.secret)]
        return Child(command, self.settings.folder / "executor.log", self.environment)

    def _tell(self, child: Child) -> None:
        """Tell each change that the new lines of the log report."""
        with child.log.open("rb") as log:
            log.seek(self.read)
            text = log.read()
        # Half a line is read again with its end, once that is written.
        text = text[: text.rfind(b"\n") + 1]
        self.read += len(text)
        for line in text.decode(errors="replace").splitlines():
            for sign, news in NEWS.items():
                if sign in line:
                    self._say_once(news.format(ca=self.settings.ca, name=self.settings.name))

    def _lost(self, child: Child) -> None:
        """Tell that the SuperNode ended, unless its log has given the reason."""
        self._tell(child)
        if self.told in ("", CONNECTED):
            self._say_once(f"the connection ended ({child.last_words()}); trying again")

    def _stumbled(self, child: Child) -> None:
        self.say(f"{self.settings.name}: the executor ended ({child.last_words()}); starting it again")

    def _say_once(self, news: str) -> None:
        if news != self.told:
            self.say(f"{self.settings.name}: {news}")
        self.told = news


def supervise_node(settings: ClientSettings, config: Path, say: Callable[[str], None]) -> None:
    """Keep a client connected until SIGTERM or Ctrl-C, then end its processes."""
    FolderModuleCache(settings.folder / MODULES).keep(())  # left by a client that was killed
    with stop_signals() as stop, tempfile.TemporaryDirectory(prefix="fedsgt-") as private:
        node = SuperNode(settings, config, Path(private), say)
        try:
            while not stop.wait(TICK_SECONDS):
                node.tend()
        finally:
            node.stop()


def _quoted(text: str) -> str:
    """Return a text in quotes that it does not contain: Flower reads it as TOML without escapes."""
    return f'"{text}"' if "'" in text else f"'{text}'"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOCAL, 0))
        port: int = probe.getsockname()[1]
        return port
