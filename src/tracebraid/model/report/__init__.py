"""A report: what it is made of, and what it is made from."""
