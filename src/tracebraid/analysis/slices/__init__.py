"""Slices of a timeline: which events are drawn, on which line, and what joins them."""
