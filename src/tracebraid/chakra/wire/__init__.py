"""Bytes of `.et` files: the schema, messages behind their lengths, and columns to bytes and back."""
