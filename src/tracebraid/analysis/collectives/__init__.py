"""Collectives over all ranks: arrivals, transfers and waits."""
