"""Flower app that only points to the installed package, which has all of its code."""
