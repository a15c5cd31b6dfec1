"""Anti-patterns of copies, optimizers and activations."""
