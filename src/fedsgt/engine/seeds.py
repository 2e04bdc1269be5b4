"""Every random choice has a seed of its own, derived by hashing; there is no global generator."""

from __future__ import annotations

import hashlib

from fedsgt.files.encoding import frames


def seed_of(purpose: str, *parts: int | str) -> int:
    """128 bits from what the choice is for and what it may depend on."""
    digest = hashlib.sha256(frames("fedsgt.seed.1", purpose, *parts)).digest()
    return int.from_bytes(digest[:16], "big")
