"""Anti-patterns of communication."""
