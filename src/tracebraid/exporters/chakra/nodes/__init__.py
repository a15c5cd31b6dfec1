"""A rank's dependency graph as nodes that wait for each other's ends: details `full` and `device`."""
