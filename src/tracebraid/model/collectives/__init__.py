"""Collectives: their types, names and rules, and how they are matched and their transfer is known."""
