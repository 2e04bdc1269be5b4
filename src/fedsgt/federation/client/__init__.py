"""A client's side of a federation: its records, its trainer, its node and its withdrawals."""
