"""Trees of modules in which each set of groups is trained at most once."""
