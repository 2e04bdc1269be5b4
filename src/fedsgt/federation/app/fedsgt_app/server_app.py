"""The server's part of the Flower app."""

from fedsgt.federation.server.server_app import app

__all__ = ["app"]
