"""Predict, evaluate and export with live modules only."""
