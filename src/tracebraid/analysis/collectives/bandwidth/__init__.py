"""Formulas of bandwidth and latency of collectives."""
