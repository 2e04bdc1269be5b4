"""Rounds of training on clients: one interface, one local update, several engines, one stream of events."""
