"""Idle time analyses: gaps, causes, and host activity."""
