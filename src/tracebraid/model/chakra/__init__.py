"""Chakra's Execution Traces in protobuf, the `.et` files that simulators run: their nouns and codes."""
