"""Durable writes, locks, encodings that read one way only, and optional imports."""
