"""How much of the measured time a dependency graph explains."""
