"""Durable writes, locks, canonical encodings, and optional imports."""
