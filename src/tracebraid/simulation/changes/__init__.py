"""What-if changes: each makes of a dependency graph and selected activities another graph."""
