"""The clients' part of the Flower app."""

from fedsgt.federation.client.node_app import app

__all__ = ["app"]
