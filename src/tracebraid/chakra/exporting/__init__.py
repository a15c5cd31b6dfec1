"""Convert a job to nodes of Chakra's `.et` files."""
