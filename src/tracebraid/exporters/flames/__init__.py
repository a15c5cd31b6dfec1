"""Flame graphs for their viewers."""
