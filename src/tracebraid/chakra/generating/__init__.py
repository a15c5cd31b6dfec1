"""Synthetic jobs as Chakra's nodes."""
