"""Sequences of kernels that come back."""
