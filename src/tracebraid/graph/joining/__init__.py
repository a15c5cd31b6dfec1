"""The ranks' parts as one graph: collectives, order, residuals, steps."""
