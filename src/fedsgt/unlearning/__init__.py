"""Deletion requests and what follows: invalidation, destruction, selection, certificates, verification."""
