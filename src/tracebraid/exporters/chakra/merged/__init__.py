"""A rank with one compute lane: what ran at once becomes one sequence, as long as it took."""
