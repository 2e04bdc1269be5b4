"""Rotations against other plans."""
