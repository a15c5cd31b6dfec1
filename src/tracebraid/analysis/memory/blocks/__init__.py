"""Blocks of memory: lifetimes, uses, and allocated bytes over time."""
