"""Waits of host threads."""
