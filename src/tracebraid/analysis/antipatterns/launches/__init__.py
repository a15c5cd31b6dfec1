"""Anti-patterns of launches and copies."""
