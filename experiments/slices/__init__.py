"""How many slices a client."""
