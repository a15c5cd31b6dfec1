"""Anti-patterns of matrix products."""
