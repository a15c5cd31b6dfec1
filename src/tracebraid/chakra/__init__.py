"""Chakra's `.et` files: read, written, checked, shown, generated; how a job becomes such nodes, exporters know."""
