"""How many sequences."""
