"""Ranks against each other: clocks, steps, stragglers."""
