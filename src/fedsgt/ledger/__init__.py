"""The append-only, hash-chained ledger of a run, in SQLite or PostgreSQL."""
