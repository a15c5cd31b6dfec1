"""Memory analyses: allocations over time by op, use and holder."""
