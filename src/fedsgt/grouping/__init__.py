"""Slices to groups: balanced, within per-client limits, by one of four methods."""

from fedsgt.grouping.make import METHODS, make
from fedsgt.grouping.result import Grouping, objective

__all__ = ["METHODS", "Grouping", "make", "objective"]
