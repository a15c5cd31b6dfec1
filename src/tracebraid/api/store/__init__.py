"""Stores: packed, opened, and verified."""
