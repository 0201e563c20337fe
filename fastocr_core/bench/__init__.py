"""Measurements: each module prints a table, and one JSON line last."""
