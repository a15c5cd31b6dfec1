"""The graph of ops, and parts of it."""
