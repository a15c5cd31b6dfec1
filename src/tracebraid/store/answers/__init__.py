"""Answers to the usual questions, stored while ranks are packed: small tables, read once for all ranks."""
