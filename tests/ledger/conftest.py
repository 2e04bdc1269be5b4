"""The ledger's tests run on both databases."""

from databases import ledger_url

__all__ = ["ledger_url"]
