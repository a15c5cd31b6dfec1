"""Public functions on Chakra's `.et` files, a module each."""
