"""Calls made on mutants: public functions and commands of the package."""
