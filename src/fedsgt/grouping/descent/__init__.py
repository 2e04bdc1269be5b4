"""Improve a grouping by swapping slices."""
