"""Improve a grouping by exchanging slices between groups."""
