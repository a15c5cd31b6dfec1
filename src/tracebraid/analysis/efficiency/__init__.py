"""Efficiency analyses: computation and data movement of ops, device limits, and lost time."""
