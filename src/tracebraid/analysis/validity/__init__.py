"""Questions about whether the figures of a step can be trusted."""
