"""Latencies that are usual on a rank, learned from its own edges."""
