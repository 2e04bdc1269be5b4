"""Attacks on the promises of a run: seeded campaigns of kills, races, planted files and tampering."""
