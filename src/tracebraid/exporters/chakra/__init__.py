"""A rank's dependency graph as nodes of a Chakra trace."""
