"""Chakra's traces run on a model of hardware: lanes of ranks, and networks between them."""
