"""Encoding of `.et` files: schema, length-prefixed messages, and conversion between columns and bytes."""
