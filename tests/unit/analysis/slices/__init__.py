"""Slices of a timeline."""
