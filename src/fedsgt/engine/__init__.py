"""Train these phases on these clients: one interface, one local update, several engines behind it."""
