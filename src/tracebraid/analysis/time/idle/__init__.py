"""Questions about idle time: its gaps, their causes, and what the host did meanwhile."""
