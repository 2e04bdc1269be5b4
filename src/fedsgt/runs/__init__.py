"""A run in its folder: its description, what of it is live, and the registry of all files it can hold."""
