"""Copies and fills: from where to where, how fast, and what waits for them."""
