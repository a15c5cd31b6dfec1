"""How a job becomes nodes of Chakra's `.et` files."""
