"""Anti-patterns: a detector for each in a file of its own."""
