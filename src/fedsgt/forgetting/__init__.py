"""Measure by membership inference whether deleted records are forgotten."""
