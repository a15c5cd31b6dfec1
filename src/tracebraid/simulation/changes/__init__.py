"""What-if changes: each turns a dependency graph and selected activities into another graph."""
