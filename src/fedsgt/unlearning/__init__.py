"""Deletion requests: acceptance, destruction, erasure at the source, rejoining, retraining policy."""
