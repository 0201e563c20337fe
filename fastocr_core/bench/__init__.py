"""Measured speed against physical limits. Ratios within one process; nothing here asserts on seconds."""
