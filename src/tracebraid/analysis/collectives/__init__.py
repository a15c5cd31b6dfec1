"""Collectives over all ranks: who arrived when, what they transfer, who waits."""
