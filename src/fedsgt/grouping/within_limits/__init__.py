"""Group slices so that no client is in more groups than it allows."""
