"""Slices to groups: balanced and within the clients' limits, or whole clients by their updates."""

from fedsgt.grouping.make import METHODS, make
from fedsgt.grouping.result import Grouping, objective

__all__ = ["METHODS", "Grouping", "make", "objective"]
