"""Check a run: audit its files, and rebuild what it serves."""
