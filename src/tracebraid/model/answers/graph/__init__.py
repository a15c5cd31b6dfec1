"""The tables that are answers of the dependency graph."""
