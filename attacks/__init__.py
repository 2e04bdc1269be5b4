"""Attacks on the promises of a run: seeded, bounded campaigns of kills, races, planted files and tampering."""
