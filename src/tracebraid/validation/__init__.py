"""Validate a capture: problems, their consequence, and advice."""
